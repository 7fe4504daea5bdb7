//! Our kernels, built in as source and compiled by NVRTC for a device, which need not be present.

use super::libraries::Library;
use crate::error::{Error, Result};
use crate::named_enum;
use crate::ops::Dtype;
use cudarc::nvrtc::{result, sys};
use std::ffi::{CStr, CString};

/// Header of every source.
const COMMON: &str = include_str!("../../../kernels/common.cuh");

named_enum! {
    /// One file of `kernels/`.
    Source {
        /// Bandwidth.
        Copy = "copy.cu",
        /// Kernels of independent elements.
        Elementwise = "elementwise.cu",
        /// Values of operands, and clock stamps.
        Fill = "fill.cu",
        /// Rows moved by an index.
        Gather = "gather.cu",
        /// Layer norm and RMS norm.
        Norm = "norm.cu",
        /// Casts to 8 bits.
        Quantize = "quantize.cu",
        /// Softmax and cross-entropy.
        Softmax = "softmax.cu",
    }
}

impl Source {
    const fn text(self) -> &'static str {
        match self {
            Self::Copy => include_str!("../../../kernels/copy.cu"),
            Self::Elementwise => include_str!("../../../kernels/elementwise.cu"),
            Self::Fill => include_str!("../../../kernels/fill.cu"),
            Self::Gather => include_str!("../../../kernels/gather.cu"),
            Self::Norm => include_str!("../../../kernels/norm.cu"),
            Self::Quantize => include_str!("../../../kernels/quantize.cu"),
            Self::Softmax => include_str!("../../../kernels/softmax.cu"),
        }
    }

    /// The source with its header, for a format and this many elements per access.
    pub fn with(self, dtype: Dtype, vector: u64) -> String {
        let format = match dtype {
            Dtype::Fp16 => "FP16",
            Dtype::Bf16 => "BF16",
            Dtype::Fp8 => "FP8",
            _ => "FP32",
        };
        let text = self.text();
        format!("#define TENSOR_{format}\n#define VECTOR {vector}\n{COMMON}\n{text}")
    }
}

/// A compiled source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Image for the driver: machine code for `sm_...`, PTX with a closing zero for `compute_...`.
    pub image: Vec<u8>,
    /// The same as PTX text.
    pub ptx: String,
    /// Log of the compiler, with the registers and spills of each kernel (`--ptxas-options=-v`).
    pub log: String,
}

/// A program of NVRTC.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created by NVRTC and is destroyed once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

/// Compiles a source for an architecture, `sm_90a` or `compute_90`.
pub fn compile(source: Source, dtype: Dtype, vector: u64, architecture: &str) -> Result<Compiled> {
    Library::Nvrtc.require()?;
    let name = source.name();
    let fail = |what: &str, log: &str| {
        let first = log.lines().find(|line| line.contains("error"));
        let log = first.unwrap_or(log).trim();
        Error::infeasible(format!("NVRTC cannot compile {name} for {architecture}: {what} {log}"))
    };
    let text = CString::new(source.with(dtype, vector)).map_err(|_| fail("a zero byte", ""))?;
    let title = CString::new(name).map_err(|_| fail("a zero byte", ""))?;
    let program = result::create_program(&text, Some(&title))
        .map(Program)
        .map_err(|error| fail(&error.to_string(), ""))?;
    let options = [
        &format!("--gpu-architecture={architecture}"),
        "--std=c++17",
        "--use_fast_math",
        "-default-device",
        "--ptxas-options=-v",
    ]
    .map(str::to_owned);
    // SAFETY: the program lives until the end of this function, and source and options with it.
    let done = unsafe { result::compile_program(program.0, &options) };
    let log = text_of(&program);
    done.map_err(|error| fail(&error.to_string(), &log))?;
    // SAFETY: the program is compiled.
    let ptx = unsafe { result::get_ptx(program.0) }.map_err(|e| fail(&e.to_string(), &log))?;
    let ptx: Vec<u8> = ptx.into_iter().map(|byte| byte as u8).collect();
    let readable = String::from_utf8_lossy(&ptx).trim_end_matches('\0').into();
    let image = match machine_code(&program).map_err(|error| fail(&error, &log))? {
        code if code.is_empty() => ptx,
        code => code,
    };
    Ok(Compiled {
        image,
        ptx: readable,
        log,
    })
}

/// The log of a compilation, also of one that failed.
fn text_of(program: &Program) -> String {
    // SAFETY: the program is alive; the log ends with a zero byte.
    let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
    let bytes: Vec<u8> = log.into_iter().map(|byte| byte as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy);
    text.unwrap_or_default().into_owned()
}

/// Machine code of a compiled program; empty where only PTX was asked for.
fn machine_code(program: &Program) -> std::result::Result<Vec<u8>, String> {
    let mut size = 0;
    // SAFETY: the program is alive and compiled, and `size` outlives the call.
    let known = unsafe { sys::nvrtcGetCUBINSize(program.0, &raw mut size) }.result();
    if known.is_err() || size == 0 {
        return Ok(Vec::new());
    }
    let mut code = vec![0u8; size];
    // SAFETY: the buffer has the size that NVRTC asked for.
    let copied = unsafe { sys::nvrtcGetCUBIN(program.0, code.as_mut_ptr().cast()) }.result();
    copied.map(|()| code).map_err(|error| error.to_string())
}

/// The version of NVRTC as `13.0`.
pub fn version() -> Option<String> {
    Library::Nvrtc.require().ok()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both numbers outlive the call.
    let known = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result();
    known.ok().map(|()| format!("{major}.{minor}"))
}

/// The architecture for a device of this compute capability: its own where NVRTC supports it, else
/// the PTX of the newest supported one below it, which the driver compiles.
pub fn architecture(major: i32, minor: i32) -> Result<String> {
    Library::Nvrtc.require()?;
    let mut count = 0;
    // SAFETY: the number outlives the call.
    let known = unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result();
    let mut supported = vec![0i32; usize::try_from(count).unwrap_or(0)];
    let listed = known.and_then(|()| {
        // SAFETY: the buffer has as many places as NVRTC said.
        unsafe { sys::nvrtcGetSupportedArchs(supported.as_mut_ptr()) }.result()
    });
    listed.map_err(|error| Error::infeasible(format!("NVRTC names no architectures: {error}")))?;
    let own = major * 10 + minor;
    if supported.contains(&own) {
        return Ok(format!("sm_{own}"));
    }
    let below = supported.into_iter().filter(|&other| other < own).max();
    below.map(|below| format!("compute_{below}")).ok_or_else(|| {
        let version = version().unwrap_or_default();
        Error::infeasible(format!(
            "NVRTC {version} does not compile for a device of compute capability {major}.{minor}"
        ))
    })
}
