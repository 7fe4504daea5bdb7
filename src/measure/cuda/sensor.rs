//! Power and temperature of a GPU from NVML, which comes with its driver, where it is available.

use crate::measure::cuda::libraries::Library;
use crate::measure::device::Sensors;
use libloading::os::unix::{Library as Handle, Symbol};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};

/// `nvmlReturn_t`; zero is success.
type Status = c_int;
type Device = *mut c_void;
type Read = unsafe extern "C" fn(Device, *mut c_uint) -> Status;
type ReadKind = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> Status;

/// The sensors of one GPU.
pub(super) struct Sensor {
    device: Device,
    power: Option<Symbol<Read>>,
    temperature: Option<Symbol<ReadKind>>,
    /// Version of the driver, such as `580.65.06`.
    pub(super) driver_version: Option<String>,
    // The symbols above are of this library.
    _library: Handle,
}

impl Sensor {
    /// The sensors of the GPU at this address on the PCI bus (`00000000:19:00.0`).
    pub(super) fn open(bus: &str) -> Option<Self> {
        Library::Nvml.require().ok()?;
        let bus = CString::new(bus).ok()?;
        // SAFETY: the library is open already and stays so; this only counts one use more.
        let library = unsafe { Handle::new("libnvidia-ml.so.1") }.ok()?;
        // SAFETY: the symbols have the types that nvml.h declares; each is called with pointers to
        // live values, and after `nvmlInit_v2` has succeeded.
        unsafe {
            let init: Symbol<unsafe extern "C" fn() -> Status> =
                library.get(b"nvmlInit_v2").ok()?;
            if init() != 0 {
                return None;
            }
            let find: Symbol<unsafe extern "C" fn(*const c_char, *mut Device) -> Status> =
                library.get(b"nvmlDeviceGetHandleByPciBusId_v2").ok()?;
            let mut device = std::ptr::null_mut();
            if find(bus.as_ptr(), &raw mut device) != 0 {
                return None;
            }
            let power = library.get(b"nvmlDeviceGetPowerUsage").ok();
            let temperature = library.get(b"nvmlDeviceGetTemperature").ok();
            let version: Option<Symbol<unsafe extern "C" fn(*mut c_char, c_uint) -> Status>> =
                library.get(b"nvmlSystemGetDriverVersion").ok();
            let driver_version = version.and_then(|version| {
                let mut text = [0u8; 96];
                let status = version(text.as_mut_ptr().cast(), text.len() as c_uint);
                let end = text.iter().position(|&byte| byte == 0)?;
                let text = String::from_utf8_lossy(&text[..end]).into_owned();
                (status == 0 && !text.is_empty()).then_some(text)
            });
            Some(Self {
                device,
                power,
                temperature,
                driver_version,
                _library: library,
            })
        }
    }

    /// Current readings.
    pub(super) fn read(&self) -> Sensors {
        /// `NVML_TEMPERATURE_GPU`: the sensor of the chip.
        const CHIP: c_uint = 0;
        let (mut milliwatts, mut degrees) = (0, 0);
        // SAFETY: the device is one that NVML gave out, and the numbers outlive the calls.
        let (power, temperature) = unsafe {
            let power = self.power.as_ref();
            let temperature = self.temperature.as_ref();
            (
                power.map(|read| read(self.device, &raw mut milliwatts)),
                temperature.map(|read| read(self.device, CHIP, &raw mut degrees)),
            )
        };
        let read = |status: Option<Status>, value: f64| (status == Some(0)).then_some(value);
        Sensors {
            power_watts: read(power, f64::from(milliwatts) / 1e3),
            temperature_celsius: read(temperature, f64::from(degrees)),
        }
    }
}
