//! Opens a device by its name.

use super::device::Device;
use crate::error::{Error, Result};

/// Allowed names; tests have `scripted` besides.
const ALLOWED: &str = "cuda:N, wgpu:N with N the number of the GPU from 0, or cpu";

/// Opens the device of this name: `cuda:0`, `wgpu:0`, `cpu`.
pub fn open(name: &str) -> Result<Box<dyn Device>> {
    let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
    let refuse = || Error::field("command line", "--device", format!("`{name}`"), ALLOWED);
    let number = || rest.parse::<u32>().map_err(|_| refuse());
    match kind {
        "cuda" => number().and_then(cuda),
        "wgpu" => number().and_then(wgpu),
        "cpu" if name == "cpu" => cpu(),
        #[cfg(feature = "test-support")]
        "scripted" => {
            use super::scripted::{Script, Scripted};
            Ok(Box::new(Scripted::new(Script::parse(rest)?)))
        }
        _ => Err(refuse()),
    }
}

#[cfg(feature = "cuda")]
fn cuda(number: u32) -> Result<Box<dyn Device>> {
    Ok(Box::new(super::cuda::open(number as usize)?))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_number: u32) -> Result<Box<dyn Device>> {
    Err(Error::feature_off("`measure --device cuda`", "cuda"))
}

#[cfg(feature = "wgpu")]
fn wgpu(number: u32) -> Result<Box<dyn Device>> {
    Ok(Box::new(super::portable::wgpu(number)?))
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(_number: u32) -> Result<Box<dyn Device>> {
    Err(Error::feature_off("`measure --device wgpu`", "wgpu"))
}

#[cfg(feature = "train")]
fn cpu() -> Result<Box<dyn Device>> {
    Ok(Box::new(super::portable::cpu()))
}

#[cfg(not(feature = "train"))]
fn cpu() -> Result<Box<dyn Device>> {
    Err(Error::feature_off("`measure --device cpu`", "train"))
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
