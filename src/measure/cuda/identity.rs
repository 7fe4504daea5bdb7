//! Identity of a CUDA device: its name, the libraries and the properties that the driver reports.

use super::compile;
use super::cudnn;
use super::driver::{Driver, failed};
use super::gemm;
use super::libraries::Library;
use super::sensor::Sensor;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::measure::device::{DriverInfo, Identity, device_name};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

/// PCI bus address of the device, by which NVML finds it; indices differ where devices are hidden.
pub fn bus(driver: &Driver) -> Option<String> {
    let mut text = [0u8; 32];
    let (to, room) = (text.as_mut_ptr().cast(), text.len() as i32);
    // SAFETY: the buffer has the announced size, and the device is open.
    let status = unsafe { sys::cuDeviceGetPCIBusId(to, room, driver.context().cu_device()) };
    status.result().ok()?;
    let end = text.iter().position(|&byte| byte == 0)?;
    String::from_utf8(text[..end].to_vec()).ok()
}

/// A version of cuBLASLt or cuDNN as text: `9.19.0` for 91900.
pub fn version(number: usize) -> String {
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    format!("{major}.{minor}.{patch}")
}

/// Version of CUDA that the driver supports: 1000 times the major plus 10 times the minor version.
pub fn driver_version() -> i32 {
    let mut version = 0;
    // SAFETY: the number outlives the call, which has no other preconditions.
    let _ = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    version
}

/// Identity of the device and its libraries.
pub fn identity(driver: &Driver, sensor: Option<&Sensor>, cudnn: bool) -> Result<Identity> {
    let title = driver.context().name().map_err(failed("report the name of a device"))?;
    let total = driver.context().total_mem().ok();
    let reported = |attribute| driver.attribute(attribute);
    let version = driver_version();
    let mut libraries = vec![format!("cuda {}.{}", version / 1000, version % 1000 / 10)];
    if let Some(version) = sensor.and_then(|sensor| sensor.driver_version.as_ref()) {
        libraries.push(format!("driver {version}"));
    }
    let mut stack = format!("cublaslt {}", gemm::version());
    if cudnn {
        let cudnn = format!("cudnn {}", cudnn::Handle::version());
        stack = format!("{stack} {cudnn}");
        libraries.push(cudnn);
    }
    if let Some(version) = compile::version() {
        libraries.push(format!("nvrtc {version}"));
    }
    Ok(Identity {
        gpu: match Gpu::find(&title) {
            Ok(known) => known.name.clone(),
            Err(_) => device_name(&title),
        },
        stack,
        libraries: libraries.join(", "),
        files: Library::ALL
            .into_iter()
            .flat_map(Library::files)
            .map(|file| file.display().to_string())
            .collect(),
        driver: DriverInfo {
            processors: reported(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            clock_hz: reported(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).map(|kilohertz| kilohertz as f64 * 1e3),
            memory_bytes: total.map(|bytes| bytes as f64),
            cache_bytes: reported(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).map(|bytes| bytes as f64),
            title,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_drivers_report_are_those_of_built_in_gpus() {
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
