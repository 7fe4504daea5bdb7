//! The figures of `shapewise`, compiled in as text: GPUs, transformers, frameworks and laws, each with its source. A package
//! of its own, for several packages read them and a package holds no file from above its manifest.

use include_dir::include_dir;

/// A folder of `data/`.
pub use include_dir::Dir;

/// A file of `data/`.
pub struct File {
    /// Its path in the repository, for messages.
    pub place: &'static str,
    pub text: &'static str,
}

macro_rules! files {
    ($($name:ident = $path:literal;)+) => {
        $(
            #[doc = concat!("`data/", $path, "`.")]
            pub const $name: File = File {
                place: concat!("data/", $path),
                text: include_str!($path),
            };
        )+
    };
}

files! {
    ADAPTERS = "adapters.toml";
    ALIGNMENT = "alignment.toml";
    ATTENTION = "attention.toml";
    CHECKPOINT_NAMES = "checkpoint-names.toml";
    FUSED_MOE_TILES = "fused-moe-tiles.csv";
    HF_MODULES = "hf-modules.toml";
    HF_TYPES = "hf-types.toml";
    HINTS = "hints.toml";
    LAYOUTS = "layouts.toml";
    LOSS_LAW = "loss/law.toml";
    LOSS_TERMS = "loss/terms.toml";
    MEMORY = "memory.toml";
    OTHER_STACKS = "other_stacks.toml";
    SEARCH_BOUNDS = "search-bounds.toml";
    SPARSE = "sparse.toml";
    STACKS = "stacks.toml";
}

/// Transformers, a file each.
pub static ARCHITECTURES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/architectures");

/// Training and serving frameworks.
pub static FRAMEWORKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/frameworks");

/// GPUs, a file each.
pub static GPUS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/gpus");

/// What the columns of published tables mean.
pub static IMPORTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/imports");

/// Plans of measurements.
pub static PLANS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/plans");

/// What the columns of published runs mean.
pub static RUNS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/runs");

/// Widths in pictures are measured with this font, and PNGs are written in it; viewers of SVGs take their own.
pub static FONT: &[u8] = include_bytes!("fonts/DejaVuSans-subset.ttf");
