//! Who is measured: the part, the software that runs its operators, and what the driver reports.

use crate::error::Result;
use crate::gpu::Gpu;
use crate::measure::cuda::compile;
use crate::measure::cuda::cudnn;
use crate::measure::cuda::driver::{Driver, failed};
use crate::measure::cuda::gemm;
use crate::measure::cuda::sensor::Sensor;
use crate::measure::device::{Facts, Identity};
use crate::units::Hertz;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

/// The address of a device on the PCI bus, by which NVML knows it: indices differ where some devices are hidden.
pub(super) fn bus(driver: &Driver) -> Option<String> {
    let mut text = [0u8; 32];
    let (to, room) = (text.as_mut_ptr().cast(), text.len() as i32);
    // SAFETY: the buffer has the announced size, and the device is open.
    let status = unsafe { sys::cuDeviceGetPCIBusId(to, room, driver.context().cu_device()) };
    status.result().ok()?;
    let end = text.iter().position(|&byte| byte == 0)?;
    String::from_utf8(text[..end].to_vec()).ok()
}

/// The version of CUDA that the driver speaks, as 1000 times the major and 10 times the minor version.
pub(super) fn driver_version() -> i32 {
    let mut version = 0;
    // SAFETY: the number outlives the call, which has no other preconditions.
    let _ = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    version
}

/// Who is measured.
pub(super) fn identity(driver: &Driver, sensor: Option<&Sensor>, cudnn: bool) -> Result<Identity> {
    let title = driver
        .context()
        .name()
        .map_err(failed("tell the name of a device"))?;
    let total = driver.context().total_mem().ok();
    let told = |attribute| driver.attribute(attribute);
    let version = driver_version();
    let mut libraries = vec![format!("cuda {}.{}", version / 1000, version % 1000 / 10)];
    if let Some(version) = sensor.and_then(|sensor| sensor.driver_version.as_ref()) {
        libraries.push(format!("driver {version}"));
    }
    if cudnn {
        libraries.push(format!("cudnn {}", cudnn::Handle::version()));
    }
    if let Some(version) = compile::version() {
        libraries.push(format!("nvrtc {version}"));
    }
    Ok(Identity {
        gpu: match Gpu::find(&title) {
            Ok(known) => known.name.clone(),
            Err(_) => short_name(&title),
        },
        stack: format!("cublaslt {}", gemm::version()),
        libraries: libraries.join(", "),
        facts: Facts {
            processors: told(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            clock: told(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)
                .map(|kilohertz| Hertz::from_hertz(kilohertz as f64 * 1e3)),
            memory_bytes: total.map(|bytes| bytes as f64),
            cache_bytes: told(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
                .map(|bytes| bytes as f64),
            title,
        },
    })
}

/// A name in our spelling for a part that we do not know: `NVIDIA RTX 6000 Ada` becomes `nvidia-rtx-6000-ada`.
fn short_name(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_part_gets_a_name_of_its_own() {
        assert_eq!(
            short_name("NVIDIA RTX(TM) 6000  Ada"),
            "nvidia-rtx-tm-6000-ada"
        );
    }

    #[test]
    fn what_drivers_call_the_parts_that_we_know_is_found() {
        for (title, name) in [
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H200", "h200"),
            ("NVIDIA A100-SXM4-80GB", "a100"),
            ("Tesla V100-SXM2-32GB", "v100"),
            ("Tesla T4", "t4"),
        ] {
            assert_eq!(Gpu::find(title).unwrap().name, name);
        }
    }
}
