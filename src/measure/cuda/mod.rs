//! NVIDIA GPUs: GEMMs through cuBLASLt, attention through cuDNN, memory-bound operators through our
//! own kernels.
//!
//! No library of CUDA is needed to build or to start; each is loaded when a device is opened
//! ([`libraries`]). Without cuDNN there is no attention, without NVRTC there are no memory-bound
//! kernels. Failed calls, and panics of the bindings on a missing symbol, are errors.
//!
//! Calls return their status as an enum of the bindings to CUDA 13.0, so one that only a newer library knows would be no
//! value of it: the bindings leave no way around that. A status in memory is compared as a number.

#![allow(unsafe_code)] // The libraries of CUDA can be called in no other way; each call says why it is sound.

mod algorithm;
mod attention;
mod chain;
mod check;
mod clock;
pub mod compile;
pub mod cudnn;
mod device;
mod driver;
mod fill;
mod gemm;
mod identity;
mod launch;
pub mod libraries;
mod memory;
mod placement;
mod sensor;
mod tuning;

pub use device::CudaDevice;

use crate::error::{Error, Result};
use crate::measure::device::Device;
use cudarc::driver::CudaContext;
use libraries::Library;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Oldest supported driver, as the version of CUDA: 12.8.
const OLDEST_DRIVER: i32 = 12_080;

/// The CUDA device of this number, for [`super::open`].
pub fn device(_: &str, number: u32) -> Result<Box<dyn Device>> {
    Ok(Box::new(open(number as usize)?))
}

/// Opens the CUDA device with this index, as the driver counts them.
///
/// # Errors
///
/// Names the missing library and the searched folders, or gives the message of the driver.
pub fn open(index: usize) -> Result<CudaDevice> {
    guarded(|| {
        let count = count()?;
        if index >= count {
            let place = format!("cuda:{index}");
            let allowed = format!("cuda:0 to cuda:{}", count - 1);
            return Err(Error::field("measure", "device", place, &allowed));
        }
        Library::CublasLt.require()?;
        CudaDevice::open(index)
    })
}

/// How many devices there are, at least one.
fn count() -> Result<usize> {
    Library::Driver.require()?;
    let version = identity::driver_version();
    if version < OLDEST_DRIVER {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(Error::infeasible(format!(
            "the CUDA driver speaks CUDA {major}.{minor}; 12.8 or newer (driver 570) is needed"
        )));
    }
    let count = CudaContext::device_count().map_err(driver::failed("find a device"))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Error::infeasible("the CUDA driver finds no device")),
    }
}

/// Turns a panic of the bindings into an error.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("no reason given").replace('\n', " ");
        Err(Error::infeasible(format!(
            "a library of CUDA is not what was expected: {text}"
        )))
    })
}
