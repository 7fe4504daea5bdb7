//! A GPU through wgpu: which adapter, what it tells of itself, and the time between two timestamps.

use crate::error::Error;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::measure::device::Facts;
use crate::measure::device::Identity;
use crate::measure::portable::BURN;
use crate::measure::portable::Clock;
use crate::measure::portable::Forms;
use crate::measure::portable::Portable;
use crate::measure::portable::chain::failed;
use crate::measure::portable::host;
use crate::ops::Dtype;
use crate::ops::Layout;
use burn::tensor::DType;
use burn::tensor::Device;
use burn::tensor::DeviceKind;
use burn::tensor::ProfileOptions;
use burn::tensor::wgpu::wgpu::DeviceType;

/// Last-level cache that is assumed of a GPU that `data/gpus` does not know, since no graphics API tells it: more than
/// most parts have, so that cold calls are cold.
const ASSUMED_CACHE_BYTES: f64 = 64.0 * 1024.0 * 1024.0;

/// Opens the GPU of this number: 0 is the one that wgpu prefers, further numbers count discrete GPUs from 1.
pub fn open(number: u32) -> Result<Portable> {
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
        gpu: known.map_or_else(|| host::part_name(&about.name), |gpu| gpu.name.clone()),
        stack: format!("burn-wgpu {BURN}"),
        libraries: format!(
            "{:?}, {} {}",
            about.backend, about.driver, about.driver_info
        ),
        facts: Facts {
            title: about.name.clone(),
            cache_bytes: cache,
            ..Facts::default()
        },
    };
    let forms = if is_software {
        // Its compiler takes more than a second for a shader. Layouts, formats and vectors that fit into a row have dozens
        // each: with all of them a run would time little but the compiler. The layout is that of a linear layer.
        Forms {
            dtypes: vec![Dtype::Fp32],
            layouts: vec![Layout::Tn],
            multiple: 8,
        }
    } else {
        let mut dtypes = vec![Dtype::Fp32];
        dtypes.extend(device.supports_dtype(DType::F16).then_some(Dtype::Fp16));
        Forms {
            dtypes,
            layouts: Layout::ALL.to_vec(),
            multiple: 1,
        }
    };
    Ok(Portable::new(device, identity, Clock::Device, forms))
}

/// Runs `calls`, which enqueue work, and answers how many seconds the device took, by its own timestamps where it has
/// them, else by the wall clock between two waits for the device.
pub fn timed(device: &Device, calls: impl FnOnce() + Send) -> Result<f64> {
    let (_, window) = device
        .profile_with(ProfileOptions::default().flush(), calls)
        .map_err(failed)?;
    let ticks = pollster::block_on(window.resolve());
    // Nothing is not zero: the device lost the window.
    let ticks = ticks.ok_or_else(|| failed("no timestamps came back"))?;
    Ok(ticks.duration().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::device::Device as _;

    #[test]
    fn an_adapter_runs_every_path_as_the_reference_does() {
        let mut device = match open(0) {
            Ok(device) => device,
            Err(error) => {
                let strict = std::env::var_os("SHAPEWISE_REQUIRE_ALL").is_some();
                assert!(
                    !strict,
                    "SHAPEWISE_REQUIRE_ALL allows no skipped test: {error}"
                );
                eprintln!("skipped: {error}");
                return;
            }
        };
        for path in device.check().unwrap() {
            assert!(path.error <= path.allowed, "{path:?}");
        }
        let seconds = timed(&device.device, || {
            let x = burn::tensor::Tensor::<2>::ones([64, 64], &device.device);
            drop(x.clone().matmul(x));
        });
        assert!(seconds.unwrap() > 0.0);
        assert!(!device.identity().gpu.is_empty());
    }
}
