//! Fused mixture-of-experts layers as nets see them.

use super::coverage::note;
use super::rates::Times;
use super::row::{FeatureRow, TILE_EDGE};
use super::sampling::{Proposal, size, sizes};
use super::{Caveat, Caveats, Coverage, Extent, GpuRates, Grouping, Kernels, Learning, Neighbour, Question, Variant};
use crate::ops::{Dtype, Experts, Op, RouterLoad, Routing};
use std::sync::OnceLock;

/// Rows and columns of output tiles of grouped kernels.
const TILES: [(f64, f64); 5] = [
    (16.0, 32.0),
    (64.0, 64.0),
    (64.0, 128.0),
    (128.0, 128.0),
    (128.0, 256.0),
];

/// Elements of an expert's width that share a scale in fp8: kernels compute and read whole blocks.
const SCALE_BLOCK: u64 = 128;

/// The tile of a grouped kernel: rows, columns and depth of a block, rows of blocks that run side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tile {
    rows: u16,
    columns: u16,
    depth: u16,
    group: u16,
}

const fn tile(rows: u16, columns: u16, depth: u16, group: u16) -> Tile {
    Tile {
        rows,
        columns,
        depth,
        group,
    }
}

/// A tuned file: what it is of, and the tile of each number of tokens.
#[derive(Debug, PartialEq)]
pub(super) struct Tuned {
    gpu: &'static str,
    bits: u64,
    experts: u64,
    width: u64,
    tiles: Vec<(u64, Tile)>,
}

/// The tuned files that SGLang's fused kernel comes with, in order.
fn tuned_files() -> &'static [Tuned] {
    static FILES: OnceLock<Vec<Tuned>> = OnceLock::new();
    FILES.get_or_init(|| {
        let text = shapewise_data::FUSED_MOE_TILES.text;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(tuned_file).collect()
    })
}

/// One line of the file; `None` if it is no such line, which a test excludes.
fn tuned_file(line: &'static str) -> Option<Tuned> {
    let mut fields = line.splitn(5, ',');
    let gpu = fields.next()?;
    let mut number = || fields.next()?.parse().ok();
    let (bits, experts, width) = (number()?, number()?, number()?);
    let entry = |entry: &str| {
        let (tokens, shape) = entry.split_once(':')?;
        let mut sizes = shape.split(['x', '/']).map(|size| size.parse().ok());
        let mut size = || sizes.next()?;
        Some((tokens.parse().ok()?, tile(size()?, size()?, size()?, size()?)))
    };
    let tiles = fields.next()?.split(' ').map(entry);
    Some(Tuned {
        gpu,
        bits,
        experts,
        width,
        tiles: tiles.collect::<Option<_>>()?,
    })
}

/// The tuned files of one GPU.
pub(super) fn tuned(gpu: &str) -> &'static [Tuned] {
    let files = tuned_files();
    let start = files.partition_point(|file| file.gpu < gpu);
    let end = files.partition_point(|file| file.gpu <= gpu);
    &files[start..end]
}

/// The tile that SGLang's fused kernel runs with, and whether it was tuned: the nearest number of tokens of a tuned
/// file, else its default, which is narrow while there are no more tokens than experts.
fn chosen(op: &Experts, tokens: f64, gpu: &GpuRates) -> (Tile, bool) {
    let (experts, width) = (op.rank_experts(), op.rank_width());
    let bits = 8 * op.dtype.size();
    let found = gpu
        .fused_tiles
        .binary_search_by_key(&(bits, experts, width), |file| (file.bits, file.experts, file.width));
    if let Ok(place) = found {
        let gap = |(known, _): &&(u64, Tile)| known.abs_diff(tokens as u64);
        if let Some((_, tile)) = gpu.fused_tiles[place].tiles.iter().min_by_key(gap) {
            return (*tile, true);
        }
    }
    let default = match op.dtype {
        Dtype::Fp8 | Dtype::Fp8Block => tile(64, 128, 128, 32),
        _ if tokens <= experts as f64 => tile(16, 32, 64, 1),
        _ => tile(64, 64, 32, 8),
    };
    (default, false)
}

/// MoE layers.
pub(super) struct FusedExperts;

fn extents(op: &Experts) -> [(Extent, u64); 8] {
    [
        (Extent::Tokens, op.tokens),
        (Extent::Hidden, op.hidden),
        (Extent::Width, op.rank_width()),
        (Extent::Experts, op.experts),
        (Extent::TopK, op.top_k),
        (Extent::WidthShards, op.width_shards),
        (Extent::ExpertShards, op.expert_shards),
        (Extent::Gated, u64::from(op.gated)),
    ]
}

/// The sizes of a model: whatever tokens, shards and load.
fn layer(op: &Experts) -> [u64; 4] {
    [op.hidden, op.width, op.experts, op.top_k]
}

/// Whether layers of one to seven models alone were timed in a format: what is held out, and stated, is ranks that share them.
fn is_of_few(dtype: Dtype) -> bool {
    dtype == Dtype::W4a16
}

/// How the two projections fall into tiles.
struct Grid {
    /// Share of the rows of tiles that is computed for nothing.
    waste: f64,
    /// Waves of the up and down projection.
    up: f64,
    down: f64,
    /// Seconds of both at peak, waves whole.
    time: f64,
}

impl Grid {
    fn new(op: &Experts, routing: &Routing, (rows, columns): (f64, f64), gpu: &GpuRates) -> Self {
        let tiles = routing.tiles(rows);
        let width = op.rank_width() as f64;
        let hidden = op.hidden as f64;
        let waves = |outputs: f64| tiles * (outputs / columns).ceil() / gpu.sms;
        let (up, down) = (waves(op.up_projections() * width), waves(hidden));
        // One tile on one SM at peak, an element deep.
        let element = 2.0 * rows * columns / (gpu.peak[op.dtype as usize] / gpu.sms);
        Self {
            waste: tiles * rows / routing.routed,
            up,
            down,
            time: (up.ceil() * hidden + down.ceil() * width) * element,
        }
    }

    fn write(&self, reference: f64, row: &mut impl FeatureRow) {
        row.log("ln_tile_waste", self.waste);
        row.number("last_wave_idle_up", self.up.ceil() / self.up - 1.0);
        row.number("last_wave_idle_down", self.down.ceil() / self.down - 1.0);
        row.log("ln_waves_up", self.up);
        row.log("ln_waves_down", self.down);
        row.log("ln_wave_time", self.time / reference);
    }
}

impl Kernels for FusedExperts {
    type Shape = Experts;

    const GROUPINGS: &'static [Grouping<Experts>] = &[Grouping {
        by: "tokens",
        of: |op| op.tokens,
        bounds: &[32, 512, 4096],
    }];

    const LEARNING: Learning = Learning {
        // Few model sizes, each fitted several times.
        epochs: 60,
        // Of few model sizes: takes 3 % off the error of Hopper (docs/method/notebook.md).
        forests: 3,
        trees: [1500; 2],
        ..Learning::USUAL
    };

    fn shape(op: &Op) -> Option<Experts> {
        match op {
            Op::Experts(op) => Some(*op),
            _ => None,
        }
    }

    fn variant(op: &Experts) -> Variant {
        Variant::Format(op.dtype)
    }

    fn roofline(op: &Experts, gpu: &GpuRates) -> f64 {
        gpu.times(op.flops(), op.bytes(), op.dtype).roofline
    }

    fn features(op: &Experts, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
        let routing = op.routing();
        let [tokens, hidden, width] = [op.tokens, op.hidden, op.rank_width()].map(|dim| dim as f64);
        let [experts, top_k, shards] = [op.experts, op.top_k, op.expert_shards].map(|n| n as f64);
        let own = op.rank_experts() as f64;
        let here = op.rank_tokens(&routing);
        let Times {
            compute,
            memory,
            roofline,
            reference,
        } = gpu.times(op.flops(), op.bytes(), op.dtype);
        let size = op.dtype.size() as f64;
        let up = op.up_projections();
        let expert = (up + 1.0) * hidden * width * size;
        let weights = routing.visited * expert;
        // What unfused stages write and read again, for the routed tokens of this rank and of all ranks; some kernels run
        // every choice of a token that has one expert here.
        let stages = 2.0 * (2.0 * hidden + (up + 1.0) * width);
        let (between, between_all) = (routing.routed * stages, tokens * top_k * stages);
        let dispatched = here * top_k;

        row.log("ln_tokens", tokens);
        row.log("ln_hidden", hidden);
        row.log("ln_width", width);
        row.log("ln_experts", experts);
        row.log("ln_rank_experts", own);
        row.log("ln_top_k", top_k);
        row.log("ln_expert_shards", shards);
        row.flag("gated", op.gated);
        row.number("load_exponent", op.load.exponent());
        row.log("ln_routed", routing.routed);
        row.log("ln_visited", routing.visited);
        row.log("ln_tokens_an_expert", routing.routed / routing.visited);
        row.log("ln_imbalance", routing.largest * routing.visited / routing.routed);
        row.log("ln_rank_tokens_per_expert", here / own);
        row.log("ln_intensity", compute / memory);
        row.log("ln_roofline_per_launch", roofline / gpu.launch);
        row.log("ln_compute_share", compute / reference);
        row.log("ln_memory_share", memory / reference);
        row.number("launch_share", gpu.launch / reference);
        row.log("ln_weights_per_l2", weights / gpu.l2);
        row.log("ln_between_per_l2", between / gpu.l2);
        row.log("ln_between_time", between / gpu.bandwidth / reference);
        row.log("ln_between_all_time", between_all / gpu.bandwidth / reference);
        row.log("ln_dispatched_per_routed", dispatched / routing.routed);
        row.log(
            "ln_dispatched_compute_share",
            compute * dispatched / routing.routed / reference,
        );
        row.log(
            "ln_dispatched_between_time",
            dispatched * stages / gpu.bandwidth / reference,
        );
        row.power_of_two("hidden", op.hidden, TILE_EDGE);
        row.power_of_two("width", op.rank_width(), TILE_EDGE);
        let padding = match op.dtype {
            Dtype::Fp8 | Dtype::Fp8Block => op.rank_width().next_multiple_of(SCALE_BLOCK) as f64 / width,
            _ => 1.0,
        };
        let padded_memory = memory + (padding - 1.0) * weights / gpu.bandwidth;
        let padded = gpu.launch + padded_memory.max(padding * compute);
        row.log("ln_padding", padding);
        row.log("ln_padded_roofline", padded / reference);
        row.log("ln_sms", gpu.sms / 100.0);
        row.log("ln_flops_per_clock", gpu.flops_per_clock / 2048.0);

        row.bins("tokens", tokens);
        row.bins("tokens_an_expert", routing.routed / routing.visited);
        row.bins("width", width);

        let (tile, is_tuned) = chosen(op, here, gpu);
        let [rows, columns, depth, group] = [tile.rows, tile.columns, tile.depth, tile.group].map(f64::from);
        row.flag("tuned", is_tuned);
        row.log("ln_chosen_rows", rows);
        row.log("ln_chosen_columns", columns);
        row.log("ln_chosen_depth", depth);
        row.log("ln_chosen_group", group);
        // Weights are read once a row of tiles, tokens once a column.
        let tiles = routing.tiles(rows);
        let columns_up = (up * width / columns).ceil() * hidden;
        let columns_down = (hidden / columns).ceil() * width;
        row.log("ln_weight_tiles_time", tiles * expert / gpu.bandwidth / reference);
        row.log(
            "ln_token_tiles_time",
            tiles * rows * (columns_up + columns_down) * size / gpu.bandwidth / reference,
        );
        row.tile(format_args!("chosen"));
        Grid::new(op, &routing, (rows, columns), gpu).write(reference, row);
        for (rows, columns) in TILES {
            row.tile(format_args!("{rows}x{columns}"));
            Grid::new(op, &routing, (rows, columns), gpu).write(reference, row);
        }
        reference
    }

    fn split_key(op: &Experts) -> [u64; 4] {
        let [hidden, width, experts, top_k] = layer(op);
        match is_of_few(op.dtype) {
            true => [6, op.width_shards, op.expert_shards, 0],
            false => [6, hidden, width, (experts << 16) | top_k],
        }
    }

    fn cover(op: &Experts, coverage: &mut Coverage) {
        coverage.widen(extents(op));
        if is_of_few(op.dtype) {
            note(&mut coverage.layers, layer(op));
        }
    }

    fn nearest_covered(op: &Experts, asked: &Question<'_>) -> Option<Neighbour> {
        let covered = Experts {
            dtype: asked.variant.dtype().unwrap_or(op.dtype),
            ..*op
        };
        let mut caveats = Caveats::default();
        asked.coverage.check(extents(op), &mut caveats);
        let timed = &asked.coverage.layers;
        caveats.insert_if(!timed.is_empty() && !timed.contains(&layer(op)), Caveat::OtherLayer);
        // Beyond the most tokens the share of the roofline stays as it was there.
        let clamped = Experts {
            tokens: asked.coverage.clamp(Extent::Tokens, covered.tokens),
            ..covered
        };
        Some(Neighbour {
            timed: Op::Experts(covered),
            ..Neighbour::same(Op::Experts(clamped), caveats)
        })
    }

    fn proposal(measured: &[Experts]) -> Proposal {
        let known = measured.to_vec();
        let [tokens, hidden, width] = [
            |op: &Experts| op.tokens,
            |op: &Experts| op.hidden,
            |op: &Experts| op.width,
        ]
        .map(|size| sizes(&known, size));
        Box::new(move |random| {
            let mut op = known[random.below(known.len())];
            op.tokens = size(random, &tokens, 1);
            op.hidden = size(random, &hidden, 128);
            let width = size(random, &width, 64);
            op.width = width.next_multiple_of(op.width_shards * 64);
            (op.tokens > 0).then_some(Op::Experts(op))
        })
    }

    fn examples() -> Vec<Op> {
        let plain = Experts::new(333, 4096, 1536, 128, 8);
        let loads = RouterLoad::ALL.map(|load| Experts { load, ..plain });
        let formats = Dtype::ELEMENTS.map(|dtype| Experts { dtype, ..plain });
        let others = [
            Experts::new(1, 2880, 2880, 32, 4),
            Experts {
                width_shards: 8,
                gated: false,
                ..Experts::new(16_384, 7168, 2048, 256, 8)
            },
            Experts {
                expert_shards: 16,
                load: RouterLoad::PowerLaw120,
                ..Experts::new(4097, 6144, 16_384, 16, 2)
            },
            Experts::new(7, 1, 1, 1, 1),
        ];
        let all = loads.into_iter().chain(formats).chain(others);
        all.map(Op::Experts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::units::Seconds;

    #[test]
    fn every_line_of_tuned_tiles_is_read_in_order_and_of_a_known_gpu() {
        let text = shapewise_data::FUSED_MOE_TILES.text;
        let lines = text.lines().filter(|line| !line.starts_with('#')).count();
        let files = tuned_files();
        assert_eq!(files.len(), lines);
        let key = |file: &Tuned| (file.gpu, file.bits, file.experts, file.width);
        assert!(files.is_sorted_by(|a, b| key(a) < key(b)));
        for file in files {
            assert!(Gpu::find(file.gpu).is_ok_and(|gpu| gpu.name == file.gpu));
            assert!(file.tiles.iter().all(|(_, tile)| tile.rows >= 8));
        }
    }

    #[test]
    fn a_tuned_layer_runs_its_tile_and_others_the_default() {
        let gpu = GpuRates::new(Gpu::find("h200").unwrap(), Seconds::from_micros(2.0));
        let tuned = Experts::new(4096, 2048, 768, 128, 8);
        assert!(chosen(&tuned, 4096.0, &gpu).1);
        let other = Experts::new(4096, 2048, 760, 128, 8);
        assert_eq!(chosen(&other, 128.0, &gpu), (tile(16, 32, 64, 1), false));
        assert_eq!(chosen(&other, 129.0, &gpu), (tile(64, 64, 32, 8), false));
        let fp8 = Experts {
            dtype: Dtype::Fp8,
            ..other
        };
        assert_eq!(chosen(&fp8, 1.0, &gpu).0.columns, 128);
    }
}
