//! Identity of the CPU from what Linux reports; other systems report less.

use crate::measure::device::{DriverInfo, Identity, device_name};
use std::fs;
use std::thread::available_parallelism;

/// The CPU of this machine, named with the number of cores that this program may use.
pub fn identity(stack: String) -> Identity {
    let driver = driver();
    let cores = driver.processors.unwrap_or(1);
    Identity {
        gpu: format!("{}-{cores}-cores", device_name(&driver.title)),
        stack,
        libraries: format!("{} {}", std::env::consts::OS, instructions()),
        files: Vec::new(),
        driver,
    }
}

/// Size of the CPU's last-level cache in bytes.
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

/// Makes the allocator keep what is freed for the next tensor, as allocators of GPU memory do. glibc gives large tensors
/// back to the system and asks for them again, page by page, which takes as long as the kernels and differs by what else
/// is allocated, so neither operators nor steps would be the sum of anything.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)] // The allocator's parameters can be set in no other way.
pub fn keep_freed_memory() {
    // Of <malloc.h>: `M_TRIM_THRESHOLD`, `M_MMAP_MAX`, `M_ARENA_MAX`.
    const PARAMETERS: [(i32, i32); 3] = [(-1, i32::MAX), (-4, 0), (-8, 1)];
    unsafe extern "C" {
        fn mallopt(parameter: i32, value: i32) -> i32;
    }
    for (parameter, value) in PARAMETERS {
        // SAFETY: the function takes two numbers, locks the allocator, and refuses what it does not know.
        unsafe { mallopt(parameter, value) };
    }
}

/// Nothing is set elsewhere.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_freed_memory() {}

fn driver() -> DriverInfo {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let clock = field(&cpus, "cpu MHz").and_then(|value| value.parse::<f64>().ok());
    let total = field(&memory, "MemTotal").and_then(|value| {
        let number = value.strip_suffix(" kB")?;
        number.trim().parse::<f64>().ok()
    });
    DriverInfo {
        title: field(&cpus, "model name").unwrap_or("CPU").to_owned(),
        processors: available_parallelism().ok().map(|cores| cores.get() as u64),
        clock_hz: clock.map(|megahertz| megahertz * 1e6),
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

/// The widest vector instructions that burn's GEMMs may use here.
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
        assert!(identity.driver.processors.unwrap() >= 1);
        assert!(identity.gpu.ends_with("-cores"), "{}", identity.gpu);
    }
}
