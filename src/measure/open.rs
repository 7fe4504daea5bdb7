//! Opens a device by its name.

use super::device::Device;
use super::{cuda, portable, scripted};
use crate::error::{Error, Result};

/// Allowed names; tests have `scripted` besides.
const ALLOWED: &str = "cuda:N, wgpu:N with N the number of the GPU from 0, or cpu";

/// Opens the device of this name: `cuda:0`, `wgpu:0`, `cpu`.
pub fn open(name: &str) -> Result<Box<dyn Device>> {
    let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
    let refuse = || Error::field("command line", "--device", format!("`{name}`"), ALLOWED);
    let number = || rest.parse().map_err(|_| refuse());
    match kind {
        "cuda" => cuda::device(kind, number()?),
        "wgpu" => portable::device(kind, number()?),
        "cpu" if name == "cpu" => portable::device(kind, 0),
        "scripted" => scripted::device(rest).unwrap_or_else(|| Err(refuse())),
        _ => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_device_is_told_what_is() {
        for name in ["", "gpu", "cuda", "cuda:x", "wgpu:-1", "cpu:0", "Cuda:0"] {
            let sentence = open(name).err().expect(name).to_string();
            let expected = format!("`--device` is `{name}`; allowed: cuda:N");
            assert!(sentence.contains(&expected), "{sentence}");
        }
        let sentence = open("scripted:speed=9").err().unwrap().to_string();
        assert!(sentence.contains("`speed=9`; allowed: seed=N"), "{sentence}");
        let device = open("scripted:seed=4,fail=2").unwrap();
        assert_eq!(device.identity().gpu, crate::dataset::SCRIPTED);
    }
}
