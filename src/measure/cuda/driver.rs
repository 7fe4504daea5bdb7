//! The CUDA driver: a context, a stream, one large memory pool and two events.

use crate::error::{Error, Result};
use crate::units::Seconds;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use cudarc::driver::{CudaContext, CudaEvent, CudaGraph, CudaStream};
use std::sync::Arc;

/// Share of the free memory that the pool takes.
const POOL_SHARE: f64 = 0.6;

/// Largest size of the pool in bytes.
const POOL_BYTES: u64 = 8 << 30;

/// Maps an error of the driver to one of ours.
pub fn failed(what: &str) -> impl Fn(DriverError) -> Error {
    let what = what.to_owned();
    move |error| {
        let said = |text: std::result::Result<&std::ffi::CStr, DriverError>| {
            text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let (name, text) = (said(error.error_name()), said(error.error_string()));
        Error::infeasible(format!("the CUDA driver cannot {what}: {name}, {text}"))
    }
}

/// One allocation, released with its last use.
struct Pool {
    context: Arc<CudaContext>,
    address: u64,
    bytes: u64,
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        // SAFETY: the address came from `malloc_sync` and is freed once; work that uses it was
        // waited for or is waited for by the driver, which frees memory only when the device is
        // done with it.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// An open device.
pub struct Driver {
    // Declared first, so that it is freed while the context is still there.
    pool: Pool,
    begin: CudaEvent,
    end: CudaEvent,
    stream: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

impl Driver {
    /// Opens the device with this index; the libraries are loaded.
    pub fn open(index: usize) -> Result<Self> {
        let context = CudaContext::new(index).map_err(failed(&format!("open device {index}")))?;
        // SAFETY: everything runs on one stream, so nothing needs to be ordered by events of the
        // bindings.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(failed("create a stream"))?;
        let timing = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = || context.new_event(timing).map_err(failed("create an event"));
        let (begin, end) = (event()?, event()?);
        let (free, _) = context.mem_get_info().map_err(failed("report its free memory"))?;
        let bytes = ((free as f64 * POOL_SHARE) as u64).min(POOL_BYTES) & !0xffff;
        // SAFETY: the context is bound to this thread; the address goes into a `Pool` that frees
        // it.
        let address =
            unsafe { result::malloc_sync(bytes as usize) }.map_err(failed(&format!("allocate {} MiB", bytes >> 20)))?;
        let pool = Pool {
            context: Arc::clone(&context),
            address,
            bytes,
        };
        Ok(Self {
            pool,
            begin,
            end,
            stream,
            context,
        })
    }

    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The pool as (address, bytes).
    pub fn pool(&self) -> (u64, u64) {
        (self.pool.address, self.pool.bytes)
    }

    /// An attribute of the device, if the driver knows it.
    pub fn attribute(&self, attribute: sys::CUdevice_attribute) -> Option<u64> {
        let value = self.context.attribute(attribute).ok()?;
        u64::try_from(value).ok().filter(|&value| value > 0)
    }

    /// Synchronizes the stream, which also reports errors of kernels.
    pub fn wait(&self) -> Result<()> {
        self.stream.synchronize().map_err(failed("finish what was enqueued"))
    }

    /// Records the start event.
    pub fn begin(&self) -> Result<()> {
        let record = self.begin.record(&self.stream);
        record.map_err(failed("record an event"))
    }

    /// Records the end event.
    pub fn end(&self) -> Result<()> {
        let record = self.end.record(&self.stream);
        record.map_err(failed("record an event"))
    }

    /// Captures nodes that record the start event before the enqueued work and the end event after
    /// it, each time that the graph runs.
    ///
    /// Events around the launch of a graph would also time its own start and end.
    pub fn between_events(&self, enqueue: impl FnOnce() -> Result<()>) -> Result<()> {
        let node = |event: &CudaEvent| {
            let flags = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
            // SAFETY: event and stream are alive, and outlive the graph: the device owns both and
            // hands out chains that borrow it.
            let status = unsafe { sys::cuEventRecordWithFlags(event.cu_event(), self.stream.cu_stream(), flags) };
            status.result().map_err(failed("capture the record of an event"))
        };
        node(&self.begin)?;
        enqueue()?;
        node(&self.end)
    }

    /// Waits for the end event; returns the time between both.
    pub fn elapsed(&self) -> Result<Seconds> {
        let millis = self.begin.elapsed_ms(&self.end);
        let millis = millis.map_err(failed("report the time between events"))?;
        Ok(Seconds::from_micros(f64::from(millis) * 1e3))
    }

    /// Times the enqueued work and waits for it.
    pub fn time(&self, enqueue: impl FnOnce() -> Result<()>) -> Result<Seconds> {
        self.begin()?;
        enqueue()?;
        self.end()?;
        self.elapsed()
    }

    /// Captures the enqueued work as a graph and uploads it, without running it.
    pub fn capture(&self, enqueue: impl FnOnce() -> Result<()>) -> Result<CudaGraph> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(failed("begin a capture"))?;
        let enqueued = enqueue();
        // The capture ends whatever happened in it: the stream must be usable again.
        let ended = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        enqueued?;
        let graph = ended.map_err(failed("make a graph of a capture"))?;
        let graph = graph.ok_or_else(|| Error::infeasible("the CUDA driver captured an empty graph"))?;
        graph.upload().map_err(failed("bring a graph to the device"))?;
        Ok(graph)
    }

    /// Writes bytes to the pool in stream order and waits for it.
    ///
    /// A copy on the default stream may return before its last bytes have arrived, and our stream
    /// does not wait for that one.
    pub fn upload(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.bounds(address, bytes.len())?;
        self.bind()?;
        // SAFETY: the destination lies inside the pool, and the source lives until the copy was
        // waited for.
        unsafe { result::memcpy_htod_async(address, bytes, self.stream.cu_stream()) }
            .map_err(failed("write to device memory"))?;
        self.wait()
    }

    /// Reads bytes from the pool after the enqueued work.
    pub fn download(&self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        self.bounds(address, bytes)?;
        self.wait()?;
        let mut read = vec![0; bytes];
        // SAFETY: the source lies inside the pool, and nothing is running that writes it.
        unsafe { result::memcpy_dtoh_sync(&mut read, address) }.map_err(failed("read from device memory"))?;
        Ok(read)
    }

    /// Sets every byte of a range of the pool.
    pub fn set(&self, address: u64, bytes: usize, value: u8) -> Result<()> {
        self.bounds(address, bytes)?;
        self.bind()?;
        // SAFETY: the range lies inside the pool; the stream orders this behind what uses it.
        unsafe { result::memset_d8_async(address, value, bytes, self.stream.cu_stream()) }
            .map_err(failed("set device memory"))
    }

    /// Binds the context to this thread, as calls below the bindings' safe layer require.
    pub fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(failed("bind its context"))
    }

    /// Refuses a range outside of the pool.
    fn bounds(&self, address: u64, bytes: usize) -> Result<()> {
        let (start, size) = self.pool();
        let inside = address >= start && address - start + bytes as u64 <= size;
        if inside {
            return Ok(());
        }
        Err(Error::infeasible(format!(
            "a transfer of {bytes} bytes would leave the pool of device memory"
        )))
    }
}
