//! What Linux tells of the CPU; other systems tell less.

use crate::measure::device::Facts;
use crate::measure::device::Identity;
use crate::units::Hertz;
use std::fs;
use std::thread::available_parallelism;

/// The CPU of this machine as the part that is measured: its name and how many cores this program may use.
pub fn identity(stack: String) -> Identity {
    let facts = facts();
    let cores = facts.processors.unwrap_or(1);
    Identity {
        gpu: format!("{}-{cores}-cores", part_name(&facts.title)),
        stack,
        libraries: format!("{} {}", std::env::consts::OS, instructions()),
        facts,
    }
}

/// A name of our own from a product name: lowercase words with single hyphens, without trademarks and clocks.
pub fn part_name(title: &str) -> String {
    let title = title
        .replace("(R)", " ")
        .replace("(TM)", " ")
        .to_lowercase();
    let title = title.split('@').next().unwrap_or_default();
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        "unnamed".to_owned()
    } else {
        words.join("-")
    }
}

/// The last-level cache of the CPU in bytes.
pub fn cache_bytes() -> Option<f64> {
    let sizes = (0..5).filter_map(|index| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        kibibytes(fs::read_to_string(path).ok()?.trim())
    });
    sizes.reduce(f64::max)
}

/// `32768K` in bytes.
fn kibibytes(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let unit = match unit {
        "K" => 1024.0,
        "M" => 1024.0 * 1024.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * unit)
}

fn facts() -> Facts {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let clock = field(&cpus, "cpu MHz").and_then(|value| value.parse::<f64>().ok());
    let total = field(&memory, "MemTotal").and_then(|value| {
        let number = value.strip_suffix(" kB")?;
        number.trim().parse::<f64>().ok()
    });
    Facts {
        title: field(&cpus, "model name").unwrap_or("CPU").to_owned(),
        processors: available_parallelism().ok().map(|cores| cores.get() as u64),
        clock: clock.map(|megahertz| Hertz::from_hertz(megahertz * 1e6)),
        memory_bytes: total.map(|kibibytes| kibibytes * 1024.0),
        cache_bytes: cache_bytes(),
    }
}

/// The value of the first line `key : value`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(name, _)| name.trim() == key);
    values.next().map(|(_, value)| value.trim())
}

/// The widest vector instructions that burn's products may use here.
fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return "x86_64 avx512";
        }
        if is_x86_feature_detected!("avx2") {
            return "x86_64 avx2";
        }
    }
    std::env::consts::ARCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_names_become_names_of_parts() {
        let name = "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz";
        assert_eq!(part_name(name), "intel-xeon-platinum-8480-cpu");
        assert_eq!(
            part_name("llvmpipe (LLVM 15.0.6, 256 bits)"),
            "llvmpipe-llvm-15-0-6-256-bits"
        );
        assert_eq!(part_name("  "), "unnamed");
    }

    #[test]
    fn what_the_system_files_hold_is_read() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2250.0\n";
        assert_eq!(field(text, "model name"), Some("AMD EPYC"));
        assert_eq!(field(text, "cache"), None);
        assert_eq!(kibibytes("32768K"), Some(33_554_432.0));
        assert_eq!(kibibytes("1M"), Some(1_048_576.0));
        assert_eq!(kibibytes(""), None);
        assert_eq!(kibibytes("12"), None);
    }

    #[test]
    fn this_machine_has_a_name_and_cores() {
        let identity = identity("burn-flex 1".to_owned());
        assert!(identity.facts.processors.unwrap() >= 1);
        assert!(identity.gpu.ends_with("-cores"), "{}", identity.gpu);
    }
}
