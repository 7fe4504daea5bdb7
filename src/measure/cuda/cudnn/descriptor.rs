//! Descriptors of cuDNN's backend with their attributes, and the library's handle.

use crate::error::{Error, Result};
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind,
};
use std::ffi::c_void;

/// Turns a status into a sentence, with what the library says about it.
pub(super) fn succeed(status: sys::cudnnStatus_t, what: &str) -> Result<()> {
    if status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS {
        return Ok(());
    }
    let mut text = vec![0u8; 2048];
    // SAFETY: the buffer has the announced size; the library ends the text with a zero byte inside it.
    unsafe { sys::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(0);
    let said = String::from_utf8_lossy(&text[..end]).replace('\n', " ");
    Err(Error::infeasible(format!(
        "cuDNN cannot {what}: {status:?} {}",
        said.trim()
    )))
}

/// The library, open on a device.
pub(in crate::measure::cuda) struct Handle(sys::cudnnHandle_t);

impl Handle {
    /// Opens the library on the context of this thread, for work on a stream of the driver.
    ///
    /// # Safety
    ///
    /// The stream must outlive the handle.
    pub(in crate::measure::cuda) unsafe fn new(
        stream: cudarc::driver::sys::CUstream,
    ) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer to write to is alive.
        succeed(unsafe { sys::cudnnCreate(&raw mut handle) }, "be opened")?;
        let handle = Self(handle);
        // SAFETY: the handle is alive; the caller vouches for the stream.
        succeed(
            unsafe { sys::cudnnSetStream(handle.0, stream.cast()) },
            "use a stream",
        )?;
        Ok(handle)
    }

    pub(super) const fn raw(&self) -> sys::cudnnHandle_t {
        self.0
    }

    /// The version of cuDNN as 10000 times the major and 100 times the minor version.
    pub(super) fn version_number() -> usize {
        // SAFETY: the function has no preconditions.
        unsafe { sys::cudnnGetVersion() }
    }

    /// The version of cuDNN as `9.19.0`.
    pub(in crate::measure::cuda) fn version() -> String {
        let number = Self::version_number();
        let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
        format!("{major}.{minor}.{patch}")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created by the library, destroyed once.
        let _ = unsafe { sys::cudnnDestroy(self.0) };
    }
}

/// A descriptor; it keeps no others alive, whoever uses it does.
pub(super) struct Descriptor {
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
    /// A new descriptor; `what` is its name in messages.
    pub(super) fn new(kind: Kind, what: &'static str) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer to write to is alive.
        let status = unsafe { sys::cudnnBackendCreateDescriptor(kind, &raw mut raw) };
        succeed(status, &format!("create {what}"))?;
        Ok(Self { raw, what })
    }

    pub(super) const fn raw(&self) -> sys::cudnnBackendDescriptor_t {
        self.raw
    }

    fn set<T>(&self, name: Name, of: Type, values: &[T]) -> Result<&Self> {
        let data = values.as_ptr().cast::<c_void>();
        // SAFETY: the descriptor is alive and the library copies as many values as are announced; the methods below
        // pair each type of the library with the type of Rust that has its size.
        let status =
            unsafe { sys::cudnnBackendSetAttribute(self.raw, name, of, values.len() as i64, data) };
        succeed(status, &format!("set {name:?} of {}", self.what))?;
        Ok(self)
    }

    pub(super) fn integers(&self, name: Name, values: &[i64]) -> Result<&Self> {
        self.set(name, Type::CUDNN_TYPE_INT64, values)
    }

    pub(super) fn flag(&self, name: Name, value: bool) -> Result<&Self> {
        self.set(name, Type::CUDNN_TYPE_BOOLEAN, &[u8::from(value)])
    }

    pub(super) fn format(&self, name: Name, value: sys::cudnnDataType_t) -> Result<&Self> {
        self.set(name, Type::CUDNN_TYPE_DATA_TYPE, &[value])
    }

    pub(super) fn pointwise(&self, value: sys::cudnnPointwiseMode_t) -> Result<&Self> {
        let name = Name::CUDNN_ATTR_POINTWISE_MODE;
        self.set(name, Type::CUDNN_TYPE_POINTWISE_MODE, &[value])
    }

    pub(super) fn reduction(&self, value: sys::cudnnReduceTensorOp_t) -> Result<&Self> {
        let name = Name::CUDNN_ATTR_REDUCTION_OPERATOR;
        self.set(name, Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &[value])
    }

    pub(super) fn heuristic(&self, value: sys::cudnnBackendHeurMode_t) -> Result<&Self> {
        let name = Name::CUDNN_ATTR_ENGINEHEUR_MODE;
        self.set(name, Type::CUDNN_TYPE_HEUR_MODE, &[value])
    }

    pub(super) fn handle(&self, name: Name, value: &Handle) -> Result<&Self> {
        self.set(name, Type::CUDNN_TYPE_HANDLE, &[value.raw()])
    }

    pub(super) fn text(&self, name: Name, value: &str) -> Result<&Self> {
        self.set(name, Type::CUDNN_TYPE_CHAR, value.as_bytes())
    }

    pub(super) fn addresses(&self, name: Name, values: &[*mut c_void]) -> Result<&Self> {
        self.set(name, Type::CUDNN_TYPE_VOID_PTR, values)
    }

    pub(super) fn descriptors(&self, name: Name, values: &[&Self]) -> Result<&Self> {
        let raw: Vec<_> = values.iter().map(|value| value.raw).collect();
        self.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw)
    }

    pub(super) fn descriptor(&self, name: Name, value: &Self) -> Result<&Self> {
        self.descriptors(name, &[value])
    }

    /// Makes the attributes final.
    pub(super) fn finalize(self) -> Result<Self> {
        // SAFETY: the descriptor is alive.
        let status = unsafe { sys::cudnnBackendFinalize(self.raw) };
        succeed(status, &format!("finalize {}", self.what))?;
        Ok(self)
    }

    /// One whole number.
    pub(super) fn integer(&self, name: Name) -> Result<i64> {
        let (mut value, mut count) = (0i64, 0i64);
        let (to, of) = ((&raw mut value).cast(), Type::CUDNN_TYPE_INT64);
        // SAFETY: there is room for the one value that is asked for.
        let status =
            unsafe { sys::cudnnBackendGetAttribute(self.raw, name, of, 1, &raw mut count, to) };
        succeed(status, &format!("tell {name:?} of {}", self.what))?;
        Ok(value)
    }

    /// A text.
    pub(super) fn string(&self, name: Name) -> Result<String> {
        let (mut count, of) = (0i64, Type::CUDNN_TYPE_CHAR);
        let none = std::ptr::null_mut();
        // SAFETY: asking for no values writes only their number.
        let status =
            unsafe { sys::cudnnBackendGetAttribute(self.raw, name, of, 0, &raw mut count, none) };
        succeed(status, &format!("tell {name:?} of {}", self.what))?;
        let mut text = vec![0u8; usize::try_from(count).unwrap_or(0)];
        let (room, to) = (text.len() as i64, text.as_mut_ptr().cast());
        // SAFETY: there is room for as many bytes as are asked for.
        let status =
            unsafe { sys::cudnnBackendGetAttribute(self.raw, name, of, room, &raw mut count, to) };
        succeed(status, &format!("tell {name:?} of {}", self.what))?;
        let text = String::from_utf8_lossy(&text);
        Ok(text.trim_end_matches('\0').to_owned())
    }

    /// Descriptors that the library fills in, each of this kind.
    pub(super) fn children(&self, name: Name, kind: Kind, what: &'static str) -> Result<Vec<Self>> {
        let of = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let (mut count, none) = (0i64, std::ptr::null_mut());
        // SAFETY: asking for no values writes only their number.
        let status =
            unsafe { sys::cudnnBackendGetAttribute(self.raw, name, of, 0, &raw mut count, none) };
        succeed(status, &format!("count {name:?} of {}", self.what))?;
        let mut children: Vec<_> = (0..count)
            .map(|_| Self::new(kind, what))
            .collect::<Result<_>>()?;
        let mut raw: Vec<_> = children.iter().map(|child| child.raw).collect();
        let (room, to) = (raw.len() as i64, raw.as_mut_ptr().cast());
        // SAFETY: the list holds as many descriptors as are asked for; the library fills those they point to.
        let status =
            unsafe { sys::cudnnBackendGetAttribute(self.raw, name, of, room, &raw mut count, to) };
        succeed(status, &format!("tell {name:?} of {}", self.what))?;
        children.truncate(usize::try_from(count).unwrap_or(0));
        Ok(children)
    }
}
