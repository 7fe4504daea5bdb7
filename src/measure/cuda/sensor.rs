//! Power, temperature and the reasons of the clock from NVML, which comes with the driver, where it
//! is available: read once a second by a thread, since a call takes up to a millisecond.

use super::libraries::Library;
use crate::measure::device::{ClockReasons, Sensors};
use libloading::os::unix::{Library as Handle, Symbol};
use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two readings.
const PERIOD: Duration = Duration::from_secs(1);

/// `nvmlReturn_t`; zero is success.
type Status = c_int;
type Device = *mut c_void;
type Read = unsafe extern "C" fn(Device, *mut c_uint) -> Status;
type ReadKind = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> Status;
type ReadBits = unsafe extern "C" fn(Device, *mut c_ulonglong) -> Status;

/// The sensors of one GPU.
pub struct Sensor {
    device: Device,
    power: Option<Symbol<Read>>,
    temperature: Option<Symbol<ReadKind>>,
    reasons: Option<Symbol<ReadBits>>,
    /// Version of the driver, such as `580.65.06`.
    pub driver_version: Option<String>,
    // The symbols above are of this library.
    _library: Handle,
}

// SAFETY: NVML may be called from any thread; the handle of a device is a pointer into it that no
// thread owns.
unsafe impl Send for Sensor {}

impl Sensor {
    /// The sensors of the GPU at this address on the PCI bus (`00000000:19:00.0`).
    pub fn open(bus: &str) -> Option<Self> {
        Library::Nvml.require().ok()?;
        let bus = CString::new(bus).ok()?;
        // SAFETY: the library is open already and stays so; this only counts one use more.
        let library = unsafe { Handle::new("libnvidia-ml.so.1") }.ok()?;
        // SAFETY: the symbols have the types that nvml.h declares; each is called with pointers to
        // live values, and after `nvmlInit_v2` has succeeded.
        unsafe {
            let init: Symbol<unsafe extern "C" fn() -> Status> = library.get(b"nvmlInit_v2").ok()?;
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
            // The name since driver 535, and the one before.
            let reasons = library
                .get(b"nvmlDeviceGetCurrentClocksEventReasons")
                .or_else(|_| library.get(b"nvmlDeviceGetCurrentClocksThrottleReasons"))
                .ok();
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
                reasons,
                driver_version,
                _library: library,
            })
        }
    }

    /// Current readings.
    pub fn read(&self) -> Sensors {
        /// `NVML_TEMPERATURE_GPU`: the sensor of the chip.
        const CHIP: c_uint = 0;
        let (mut milliwatts, mut degrees, mut bits) = (0, 0, 0);
        // SAFETY: the device is one that NVML gave out, and the numbers outlive the calls.
        let (power, temperature, reasons) = unsafe {
            (
                self.power.as_ref().map(|read| read(self.device, &raw mut milliwatts)),
                self.temperature
                    .as_ref()
                    .map(|read| read(self.device, CHIP, &raw mut degrees)),
                self.reasons.as_ref().map(|read| read(self.device, &raw mut bits)),
            )
        };
        let is_known = |status: Option<Status>| status == Some(0);
        Sensors {
            power_watts: is_known(power).then(|| f64::from(milliwatts) / 1e3),
            temperature_celsius: is_known(temperature).then(|| f64::from(degrees)),
            clock_reasons: is_known(reasons).then_some(ClockReasons(bits)),
        }
    }
}

/// A thread that reads sensors once a second.
pub struct Sampler {
    latest: Arc<Mutex<Sensors>>,
    /// Ends the thread when it is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Reads once now, then once a period.
    pub fn start(mut read: impl FnMut() -> Sensors + Send + 'static, period: Duration) -> Self {
        let latest = Arc::new(Mutex::new(read()));
        let (stop, stopped) = channel();
        let shared = Arc::clone(&latest);
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                let readings = read();
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = readings;
            }
        });
        Self {
            latest,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Of the sensors of a GPU.
    pub fn of(sensor: Sensor) -> Self {
        Self::start(move || sensor.read(), PERIOD)
    }

    /// The latest readings, at most a period old.
    pub fn latest(&self) -> Sensors {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn readings_are_fresh_and_the_thread_ends_at_once() {
        let mut count = 0.0;
        let read = move || {
            count += 1.0;
            Sensors {
                power_watts: Some(count),
                ..Sensors::default()
            }
        };
        let sampler = Sampler::start(read, Duration::from_millis(5));
        assert!(sampler.latest().power_watts.is_some());
        let begin = Instant::now();
        while sampler.latest().power_watts < Some(3.0) {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
        drop(sampler);
        let slow = Sampler::start(Sensors::default, Duration::from_secs(3600));
        let begin = Instant::now();
        drop(slow);
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}
