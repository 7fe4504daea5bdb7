//! A GPU through wgpu: its adapter, its identity, and the time between two timestamps.

use super::chain::failed;
use super::{BURN, Calls, Clock, Portable, SupportedGemms, host};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::measure::device::{Device as Measured, DriverInfo, Identity, device_name};
use crate::ops::{Dtype, Layout};
use burn::tensor::wgpu::wgpu::DeviceType;
use burn::tensor::{DType, Device, DeviceKind, ProfileOptions};

/// Assumed last-level cache of a GPU without a datasheet, as no graphics API reports it: more than
/// most GPUs have, so that cold calls are cold.
const ASSUMED_CACHE_BYTES: f64 = 64.0 * 1024.0 * 1024.0;

/// The device's timestamps before the first call and after the last.
const CLOCK: Clock = Clock {
    timed,
    waits: false,
    most_sets: 64.0,
};

/// Opens the GPU of this number: 0 is the one that wgpu prefers, 1 the first discrete GPU.
pub fn device(_: &str, number: u32) -> Result<Box<dyn Measured>> {
    Ok(Box::new(open(number)?))
}

/// The GPU that wgpu prefers, for fitting nets.
pub fn preferred() -> Result<Device> {
    let opened = Device::wgpu_options().init();
    opened.map_err(|error| Error::infeasible(format!("--backend wgpu: {error}")))
}

fn open(number: u32) -> Result<Portable> {
    let kind = match number {
        0 => DeviceKind::DefaultDevice,
        number => DeviceKind::DiscreteGpu(number as usize),
    };
    let opened = Device::wgpu_options()
        .device_kind(kind)
        .init_with_setup()
        .map_err(|error| {
            let reason = error.to_string().replace('\n', " ");
            let device = format!("`wgpu:{number}`, which wgpu cannot open ({reason})");
            let allowed = "the number of an adapter with a Vulkan, Metal or DX12 driver";
            Error::field("command line", "--device", device, allowed)
        })?;
    let (device, setup) = opened;
    let about = setup.adapter.get_info();
    let is_software = about.device_type == DeviceType::Cpu;
    let known = Gpu::find(&about.name).ok();
    let cache = match known {
        Some(gpu) => Some(gpu.l2().bytes()),
        None if is_software => host::cache_bytes(),
        None => Some(ASSUMED_CACHE_BYTES),
    };
    let identity = Identity {
        gpu: known.map_or_else(|| device_name(&about.name), |gpu| gpu.name.clone()),
        stack: format!("burn-wgpu {BURN}"),
        libraries: format!("{:?}, {} {}", about.backend, about.driver, about.driver_info),
        files: Vec::new(),
        driver: DriverInfo {
            title: about.name.clone(),
            cache_bytes: cache,
            ..DriverInfo::default()
        },
    };
    let gemms = if is_software {
        // Its compiler takes more than a second for a shader, and every layout, format and vector
        // width has dozens: with all of them a run would time little else. The layout is that of a
        // linear layer.
        SupportedGemms {
            dtypes: vec![Dtype::Fp32],
            layouts: vec![Layout::Tn],
            multiple: 8,
        }
    } else {
        let mut dtypes = vec![Dtype::Fp32];
        dtypes.extend(device.supports_dtype(DType::F16).then_some(Dtype::Fp16));
        SupportedGemms {
            dtypes,
            layouts: Layout::ALL.to_vec(),
            multiple: 1,
        }
    };
    Ok(Portable::new(device, identity, CLOCK, gemms))
}

/// Seconds that the work enqueued by `calls` takes on the device: by its timestamps where it has
/// them, else by the wall clock between two waits for the device.
fn timed(device: &Device, calls: Calls<'_>) -> Result<f64> {
    let (_, window) = device
        .profile_with(ProfileOptions::default().flush(), calls)
        .map_err(failed)?;
    let ticks = pollster::block_on(window.resolve());
    // The device may lose the window; that is no time of zero.
    let ticks = ticks.ok_or_else(|| failed("no timestamps came back"))?;
    Ok(ticks.duration().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_runs_every_path_as_the_reference_does() {
        let mut device = match open(0) {
            Ok(device) => device,
            Err(error) => return crate::skip::skip("wgpu", error),
        };
        let checks = device.check(&crate::ops::Dtype::ELEMENTS).unwrap();
        assert!(checks.compared.iter().all(|path| !path.is_wrong()), "{checks:?}");
        let on = device.device.clone();
        let calls = Box::new(|| {
            let x = burn::tensor::Tensor::<2>::ones([64, 64], &on);
            drop(x.clone().matmul(x));
        });
        let seconds = timed(&device.device, calls);
        assert!(seconds.unwrap() > 0.0);
        assert!(!device.identity().gpu.is_empty());
    }
}
