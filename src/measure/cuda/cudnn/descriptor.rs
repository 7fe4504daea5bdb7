//! Descriptors of cuDNN's backend API with their attributes, and the library's handle.

use crate::error::{Error, Result};
use crate::measure::cuda::identity::version;
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind,
};
use std::ffi::c_void;

/// An error for a status other than success, with the library's message.
pub fn succeed(status: sys::cudnnStatus_t, what: &str) -> Result<()> {
    if status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS {
        return Ok(());
    }
    let mut text = vec![0u8; 2048];
    // SAFETY: the buffer has the announced size; the library ends the text with a zero byte inside
    // it.
    unsafe { sys::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(0);
    let said = String::from_utf8_lossy(&text[..end]).replace('\n', " ");
    Err(Error::infeasible(format!(
        "cuDNN cannot {what}: {status:?} {}",
        said.trim()
    )))
}

/// The library's handle for a device.
pub struct Handle(sys::cudnnHandle_t);

impl Handle {
    /// Creates a handle in the context of this thread, for a stream.
    ///
    /// # Safety
    ///
    /// The stream must outlive the handle.
    pub unsafe fn new(stream: cudarc::driver::sys::CUstream) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer to write to is alive.
        succeed(unsafe { sys::cudnnCreate(&raw mut handle) }, "be opened")?;
        let handle = Self(handle);
        // SAFETY: the handle is alive; the caller vouches for the stream.
        succeed(unsafe { sys::cudnnSetStream(handle.0, stream.cast()) }, "use a stream")?;
        Ok(handle)
    }

    pub const fn raw(&self) -> sys::cudnnHandle_t {
        self.0
    }

    /// Version of cuDNN: 10000 times the major plus 100 times the minor plus the patch.
    pub fn version_number() -> usize {
        // SAFETY: the function has no preconditions.
        unsafe { sys::cudnnGetVersion() }
    }

    /// The version of cuDNN as `9.19.0`.
    pub fn version() -> String {
        version(Self::version_number())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created by the library, destroyed once.
        let _ = unsafe { sys::cudnnDestroy(self.0) };
    }
}

/// A value of an attribute.
///
/// # Safety
///
/// Values of the library's type have the size of this one, which has no padding.
pub unsafe trait Value {
    /// The library's name of the type.
    const TYPE: Type;
}

macro_rules! values {
    ($($value:ty => $name:ident),+ $(,)?) => {
        $(// SAFETY: the types are those that the documentation of the library pairs.
        unsafe impl Value for $value {
            const TYPE: Type = Type::$name;
        })+
    };
}

values! {
    i64 => CUDNN_TYPE_INT64,
    bool => CUDNN_TYPE_BOOLEAN,
    u8 => CUDNN_TYPE_CHAR,
    *mut c_void => CUDNN_TYPE_VOID_PTR,
    sys::cudnnHandle_t => CUDNN_TYPE_HANDLE,
    sys::cudnnDataType_t => CUDNN_TYPE_DATA_TYPE,
    sys::cudnnPointwiseMode_t => CUDNN_TYPE_POINTWISE_MODE,
    sys::cudnnReduceTensorOp_t => CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
    sys::cudnnBackendHeurMode_t => CUDNN_TYPE_HEUR_MODE,
}

/// A descriptor; it does not keep the descriptors that it refers to alive.
pub struct Descriptor {
    raw: sys::cudnnBackendDescriptor_t,
    what: &'static str,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: created by the library, destroyed once.
        let _ = unsafe { sys::cudnnBackendDestroyDescriptor(self.raw) };
    }
}

impl Descriptor {
    /// Creates a descriptor; `what` is its name in messages.
    pub fn new(kind: Kind, what: &'static str) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer to write to is alive.
        let status = unsafe { sys::cudnnBackendCreateDescriptor(kind, &raw mut raw) };
        succeed(status, &format!("create {what}"))?;
        Ok(Self { raw, what })
    }

    pub const fn raw(&self) -> sys::cudnnBackendDescriptor_t {
        self.raw
    }

    /// Sets an attribute to these values.
    pub fn set<T: Value>(&self, name: Name, values: &[T]) -> Result<&Self> {
        let (count, data) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: there are as many values, of the size that `Value` promises.
        unsafe { self.set_raw(name, T::TYPE, count, data) }
    }

    /// # Safety
    ///
    /// There must be as many values of the library's type.
    unsafe fn set_raw(&self, name: Name, of: Type, count: i64, data: *const c_void) -> Result<&Self> {
        // SAFETY: the descriptor is alive, the library copies as many values as are announced, and the caller vouches for
        // them.
        let status = unsafe { sys::cudnnBackendSetAttribute(self.raw, name, of, count, data) };
        succeed(status, &format!("set {name:?} of {}", self.what))?;
        Ok(self)
    }

    pub fn descriptors(&self, name: Name, values: &[&Self]) -> Result<&Self> {
        let raw: Vec<_> = values.iter().map(|value| value.raw).collect();
        let (count, of) = (raw.len() as i64, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        // SAFETY: a list of as many descriptors.
        unsafe { self.set_raw(name, of, count, raw.as_ptr().cast()) }
    }

    pub fn descriptor(&self, name: Name, value: &Self) -> Result<&Self> {
        self.descriptors(name, &[value])
    }

    /// Finalizes the descriptor.
    pub fn finalize(self) -> Result<Self> {
        // SAFETY: the descriptor is alive.
        let status = unsafe { sys::cudnnBackendFinalize(self.raw) };
        succeed(status, &format!("finalize {}", self.what))?;
        Ok(self)
    }

    /// Reads up to `room` values of an attribute; returns their number, which is that of all values
    /// where `room` is 0.
    ///
    /// # Safety
    ///
    /// `to` must have room for as many values of the type.
    unsafe fn get(&self, name: Name, of: Type, room: i64, to: *mut c_void) -> Result<usize> {
        let mut count = 0i64;
        // SAFETY: the descriptor is alive; the caller vouches for the room.
        let status = unsafe { sys::cudnnBackendGetAttribute(self.raw, name, of, room, &raw mut count, to) };
        succeed(status, &format!("read {name:?} of {}", self.what))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn count(&self, name: Name, of: Type) -> Result<usize> {
        // SAFETY: asking for no values writes only their number.
        unsafe { self.get(name, of, 0, std::ptr::null_mut()) }
    }

    /// An attribute that is one integer.
    pub fn integer(&self, name: Name) -> Result<i64> {
        let mut value = 0i64;
        // SAFETY: there is room for one value.
        unsafe { self.get(name, Type::CUDNN_TYPE_INT64, 1, (&raw mut value).cast()) }?;
        Ok(value)
    }

    /// An attribute that is a text.
    pub fn string(&self, name: Name) -> Result<String> {
        let of = Type::CUDNN_TYPE_CHAR;
        let mut text = vec![0u8; self.count(name, of)?];
        // SAFETY: there is room for as many bytes as are asked for.
        unsafe { self.get(name, of, text.len() as i64, text.as_mut_ptr().cast()) }?;
        let text = String::from_utf8_lossy(&text);
        Ok(text.trim_end_matches('\0').to_owned())
    }

    /// Descriptors of this kind that the library fills in.
    pub fn children(&self, name: Name, kind: Kind, what: &'static str) -> Result<Vec<Self>> {
        let of = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let count = self.count(name, of)?;
        let children = (0..count).map(|_| Self::new(kind, what));
        let mut children = children.collect::<Result<Vec<_>>>()?;
        let mut raw: Vec<_> = children.iter().map(|child| child.raw).collect();
        // SAFETY: the list has as many descriptors as are asked for; the library fills them in.
        let count = unsafe { self.get(name, of, raw.len() as i64, raw.as_mut_ptr().cast()) }?;
        children.truncate(count);
        Ok(children)
    }
}
