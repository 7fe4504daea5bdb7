//! The GPUs that a name may mean: those of `data/gpus`, and those that opened files describe.
//!
//! A catalogue is a value: the caller who opens a table or a model fills it and passes it on, so what a name means
//! follows from the files that were opened for one question, not from what else the program has read.

use super::Gpu;
use super::quoted;
use super::spelling;
use crate::error::Error;
use crate::error::Result;
use crate::names::nearest;

/// The built-in GPUs and any number of described ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuCatalog {
    described: Vec<Gpu>,
}

impl GpuCatalog {
    /// The GPUs of `data/gpus` alone.
    pub const fn built_in() -> Self {
        Self { described: Vec::new() }
    }

    /// Adds a described GPU; a built-in one of the same name stays as `data/gpus` has it.
    ///
    /// Of two descriptions of one GPU the later counts, with the larger of each measured rate: measuring
    /// approaches peaks and bandwidth from below.
    pub fn register(&mut self, mut gpu: Gpu) {
        if !gpu.is_described() {
            return;
        }
        let known = self.described.iter_mut();
        match known.into_iter().find(|known| known.name == gpu.name) {
            Some(known) => {
                gpu.raise_rates(known);
                *known = gpu;
            }
            None => self.described.push(gpu),
        }
    }

    /// Every GPU: the built-in ones by name, then the described ones in the order of their files.
    pub fn iter(&self) -> impl Iterator<Item = &Gpu> {
        Gpu::all().iter().chain(&self.described)
    }

    /// The GPU with this name or alias; case does not matter, and `_`, `-` and a space are equal.
    pub fn find(&self, name: &str) -> Result<&Gpu> {
        if let Some(exact) = self.iter().find(|gpu| gpu.name == name) {
            return Ok(exact);
        }
        let wanted = spelling(name);
        let spelled = |gpu: &&Gpu| gpu.names().any(|known| spelling(known) == wanted);
        let product = Product::new(name);
        let found = self.iter().find(spelled);
        found.or_else(|| self.product(&product)).ok_or_else(|| {
            let allowed = match Product::counted(name).and_then(|one| self.product(&one)) {
                Some(gpu) => format!(
                    "one name without a number of GPUs, here {}; `plan` and `compare` take that number",
                    gpu.name
                ),
                None if name.contains(',') => format!("one name; `shapewise compare --gpu {name}` takes several"),
                None => format!(
                    "{}; `shapewise gpus` lists all, `--gpu FILE.toml` describes another",
                    self.near(&product)
                ),
            };
            Error::field("target", "gpu", quoted(name), &allowed)
        })
    }

    /// The GPU that is sold under this name, with or without its maker, form and memory.
    fn product(&self, product: &Product) -> Option<&Gpu> {
        let mut gpus = self.iter();
        gpus.find(|gpu| gpu.names().any(|known| product.is(&Product::new(known), gpu)))
    }

    /// The names nearest to it that are not other products altogether.
    fn near(&self, product: &Product) -> String {
        let names = self.iter().map(|gpu| gpu.name.as_str());
        let mut near = nearest(&product.model, names);
        let letters = |name: &str| name.chars().take_while(|c| c.is_alphabetic()).collect::<String>();
        near.retain(|name| {
            letters(name) == letters(&product.model)
                && name.chars().any(|c| c.is_ascii_digit() && product.model.contains(c))
        });
        match near.is_empty() {
            true => "no known GPU is near".to_owned(),
            false => format!("nearest {}", near.join(", ")),
        }
    }
}

/// Words of a product's name that say nothing about which GPU it is.
const MAKERS: [&str; 13] = [
    "nvidia",
    "amd",
    "intel",
    "r",
    "tm",
    "geforce",
    "tesla",
    "instinct",
    "radeon",
    "gpu",
    "graphics",
    "generation",
    "corporation",
];

/// Words for the form of a GPU that a plain name means.
const FORMS: [&str; 9] = ["sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "oam", "hbm3", "hbm3e"];

/// The parts of a GPU's name.
struct Product {
    /// Letters and digits without maker, form and memory.
    model: String,
    /// GB of memory, where the name says them.
    memory: Option<f64>,
}

impl Product {
    fn new(name: &str) -> Self {
        let lower = name.to_lowercase();
        let is_path = name.contains(['/', '\\']);
        let words = lower.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|_| !is_path);
        let mut product = Self {
            model: String::new(),
            memory: None,
        };
        for word in words.filter(|word| !MAKERS.contains(word) && !FORMS.contains(word)) {
            let digits = word.trim_end_matches('b').strip_suffix('g');
            match digits.and_then(|digits| digits.parse().ok()) {
                Some(memory) if !product.model.is_empty() => product.memory = Some(memory),
                _ => product.model.push_str(word),
            }
        }
        product
    }

    /// What `4xh200` or `h200 x 4` counts.
    fn counted(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        let is_count = |text: &str| text.trim().parse::<u64>().is_ok();
        let before = lower.split_once(['x', '*', ' ']).filter(|(count, _)| is_count(count));
        let after = lower
            .rsplit_once(['x', '*', ':', ' '])
            .filter(|(_, count)| is_count(count));
        let one = before.map(|(_, one)| one).or(after.map(|(one, _)| one))?;
        Some(Self::new(one.trim_matches([' ', 'x', '*'])))
    }

    /// Whether it is this known name of a GPU; a stated memory must be that of the GPU.
    fn is(&self, known: &Self, gpu: &Gpu) -> bool {
        let gigabytes = gpu.memory().bytes() / f64::from(1 << 30);
        let fits = |memory: f64| (0.9..1.1).contains(&(memory / gigabytes));
        !self.model.is_empty() && self.model == known.model && self.memory.is_none_or(fits)
    }
}

impl FromIterator<Gpu> for GpuCatalog {
    fn from_iter<T: IntoIterator<Item = Gpu>>(gpus: T) -> Self {
        let mut all = Self::built_in();
        all.extend(gpus);
        all
    }
}

impl Extend<Gpu> for GpuCatalog {
    fn extend<T: IntoIterator<Item = Gpu>>(&mut self, gpus: T) {
        gpus.into_iter().for_each(|gpu| self.register(gpu));
    }
}

impl Gpu {
    /// Takes over the measured rates of `other` that are larger.
    fn raise_rates(&mut self, other: &Self) {
        let is_rate = |key: &str| key.starts_with("peak_") || key == "memory_bandwidth_bytes_per_s";
        for (key, figure) in other.figures().filter(|(key, _)| is_rate(key)) {
            if self.get(key).is_none_or(|held| held < figure.value) {
                self.figures.insert(key.to_owned(), figure.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::described::tests::cpu;
    use super::*;

    #[test]
    fn a_described_gpu_is_found_in_its_catalogue_alone_and_its_rates_only_grow() {
        let name = "described-gpu-1";
        let mut gpus = GpuCatalog::default();
        gpus.register(cpu(name, 1e10));
        assert!(GpuCatalog::default().find(name).is_err());
        assert!(Gpu::find(name).is_err());
        let found = gpus.find("Described_GPU 1").unwrap();
        assert!(found.is_described());
        assert_eq!(found.bandwidth().bytes_per_sec(), 1e10);
        for (described, counts) in [(3e10, 3e10), (2e10, 3e10)] {
            gpus.register(cpu(name, described));
            let found = gpus.find(name).unwrap();
            assert_eq!(found.bandwidth().bytes_per_sec(), counts);
        }
        assert_eq!(gpus.iter().count(), Gpu::all().len() + 1);
        let error = gpus.find("h2000").unwrap_err().to_string();
        let end = "`shapewise gpus` lists all, `--gpu FILE.toml` describes another";
        assert!(error.ends_with(end), "{error}");
        let near = error.split_once("nearest ").unwrap().1;
        assert!(near.starts_with("h200") || near.starts_with("h100"), "{error}");
    }

    #[test]
    fn a_built_in_gpu_is_not_described_anew() {
        let mut gpus = GpuCatalog::default();
        gpus.extend([cpu("h200", 1e10)]);
        assert_eq!(gpus, GpuCatalog::default());
        let bandwidth = gpus.find("h200").unwrap().bandwidth();
        assert_eq!(bandwidth.bytes_per_sec(), 4.8e12);
    }
}
