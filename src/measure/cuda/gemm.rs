//! GEMMs through cuBLASLt: all layouts and formats, strided batches, the heuristic's first
//! algorithm.
//!
//! Our matrices are row-major and those of cuBLASLt column-major, so it computes the transpose: its
//! `A` is our `(k, n)` operand, its `B` our `(m, k)` operand, and its output has `n` rows and `m`
//! columns. The letters of a [`Layout`] are in its order.

use super::algorithm::Algorithm;
use super::driver::Driver;
use super::identity;
use super::placement::Placement;
use super::tuning;
use crate::dataset::Kernel;
use crate::error::{Error, Result};
use crate::measure::reference::transposed;
use crate::ops::{Dtype, Gemm, Layout, Op};
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::rc::Rc;

/// Workspace of cuBLASLt; NVIDIA recommends 32 MiB for Hopper.
pub const WORKSPACE_BYTES: u64 = 32 << 20;

/// Number of algorithms that the heuristic is asked for: a shorter list need not begin like this one.
const ASKED: u32 = 8;

fn failed(what: &str) -> impl Fn(CublasError) -> Error {
    let what = what.to_owned();
    move |error| Error::infeasible(format!("cuBLASLt cannot {what}: {:?}", error.0))
}

/// Declares a wrapper that destroys what the library created.
macro_rules! owned {
    ($(#[$doc:meta])* $visibility:vis $name:ident($raw:ident, $destroy:ident)) => {
        $(#[$doc])*
        $visibility struct $name(sys::$raw);

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: created by the library, destroyed once.
                let _ = unsafe { result::$destroy(self.0) };
            }
        }
    };
}

owned! {
    /// The library's handle.
    pub Handle(cublasLtHandle_t, destroy_handle)
}
owned!(Description(cublasLtMatmulDesc_t, destroy_matmul_desc));
owned!(Matrix(cublasLtMatrixLayout_t, destroy_matrix_layout));
owned!(Preference(cublasLtMatmulPreference_t, destroy_matmul_pref));

impl Handle {
    /// Creates a handle in the context of this thread.
    pub fn new() -> Result<Rc<Self>> {
        let handle = result::create_handle().map_err(failed("be opened"))?;
        Ok(Rc::new(Self(handle)))
    }
}

/// Version of cuBLASLt as `13.1.0`.
pub fn version() -> String {
    // SAFETY: the function has no preconditions.
    identity::version(unsafe { sys::cublasLtGetVersion() })
}

/// Plain numbers, as attributes are.
///
/// # Safety
///
/// A type has no padding, and every pattern of its bits is a value.
unsafe trait Number: Default {}

// SAFETY: they are integers.
unsafe impl Number for i8 {}
// SAFETY: as above.
unsafe impl Number for u16 {}
// SAFETY: as above.
unsafe impl Number for i32 {}
// SAFETY: as above.
unsafe impl Number for u32 {}
// SAFETY: as above.
unsafe impl Number for u64 {}

impl Description {
    fn set<T: Number>(&self, attribute: sys::cublasLtMatmulDescAttributes_t, value: &T) -> Result<()> {
        // SAFETY: the description is alive; the library copies `size_of::<T>()` bytes, all of them of a number; a wrong
        // size is an error.
        unsafe { result::set_matmul_desc_attribute(self.0, attribute, pointer(value), size_of::<T>()) }
            .map_err(failed("describe a GEMM"))
    }
}

impl Matrix {
    /// A dense column-major matrix, or a strided batch of them.
    fn new(dtype: sys::cudaDataType, rows: u64, columns: u64, batch: u64) -> Result<Self> {
        let fail = failed("describe a matrix");
        let matrix = result::create_matrix_layout(dtype, rows, columns, rows as i64);
        let matrix = Self(matrix.map_err(&fail)?);
        if batch > 1 {
            use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
            let (count, stride) = (batch as i32, (rows * columns) as i64);
            let (count_of, stride_of) = (
                Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
            );
            // SAFETY: the matrix is alive; the count is an `int32_t` and the stride an `int64_t`,
            // as documented.
            unsafe {
                result::set_matrix_layout_attribute(matrix.0, count_of, pointer(&count), 4).map_err(&fail)?;
                result::set_matrix_layout_attribute(matrix.0, stride_of, pointer(&stride), 8).map_err(&fail)?;
            }
        }
        Ok(matrix)
    }
}

fn pointer<T>(value: &T) -> *const c_void {
    std::ptr::from_ref(value).cast()
}

/// Formats of inputs and output, and the compute type, of the formats that are timed.
const fn formats(dtype: Dtype) -> Option<(sys::cudaDataType, sys::cudaDataType, sys::cublasComputeType_t)> {
    use sys::cublasComputeType_t as Compute;
    use sys::cudaDataType_t as Data;
    let single = Compute::CUBLAS_COMPUTE_32F;
    Some(match dtype {
        Dtype::Fp32 => (Data::CUDA_R_32F, Data::CUDA_R_32F, single),
        Dtype::Tf32 => (
            Data::CUDA_R_32F,
            Data::CUDA_R_32F,
            Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
        ),
        Dtype::Fp16 => (Data::CUDA_R_16F, Data::CUDA_R_16F, single),
        Dtype::Bf16 => (Data::CUDA_R_16BF, Data::CUDA_R_16BF, single),
        Dtype::Fp8 => (Data::CUDA_R_8F_E4M3, Data::CUDA_R_16BF, single),
        _ => return None,
    })
}

fn unsupported(dtype: Dtype) -> String {
    format!("{dtype} GEMMs are not timed here")
}

/// Why a GEMM cannot run on a device of this compute capability, if it cannot.
pub fn refuses(op: &Gemm, capability: (i32, i32)) -> Option<String> {
    let sizes = [op.m, op.n, op.k, op.batch];
    if sizes.iter().any(|&size| size == 0 || size >= 1 << 31) {
        return Some("sizes of a GEMM must be 1 to 2^31 - 1".to_owned());
    }
    if formats(op.dtype).is_none() {
        return Some(unsupported(op.dtype));
    }
    if matches!(op.dtype, Dtype::Bf16 | Dtype::Tf32) && capability < (8, 0) {
        return Some(format!("{} GEMMs need compute capability 8.0", op.dtype));
    }
    if op.dtype == Dtype::Fp8 {
        if capability < (8, 9) {
            return Some("fp8 GEMMs need compute capability 8.9".to_owned());
        }
        if op.layout != Layout::Tn {
            return Some("cuBLASLt multiplies fp8 in the layout tn only".to_owned());
        }
        if op.padded_for_fp8().is_some() {
            return Some("fp8 GEMMs need n and k that are multiples of 16".to_owned());
        }
    }
    None
}

/// A GEMM that is set up with one algorithm; `a`, `b` and `c` are the matrices of cuBLASLt.
pub struct CublasLtGemm {
    handle: Rc<Handle>,
    description: Description,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    chosen: sys::cublasLtMatmulHeuristicResult_t,
    workspace: u64,
}

impl CublasLtGemm {
    /// Takes the first algorithm of the heuristic; `one` is the address of a 1.0 in device memory.
    pub fn new(handle: &Rc<Handle>, op: &Gemm, workspace: u64, one: u64) -> Result<Self> {
        let (operand, output, compute) = formats(op.dtype).ok_or_else(|| Error::infeasible(unsupported(op.dtype)))?;
        let description = result::create_matmul_desc(compute, sys::cudaDataType_t::CUDA_R_32F);
        let description = Description(description.map_err(failed("describe a GEMM"))?);
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let (b_transposed, a_transposed) = transposed(op.layout);
        let (trans_a, trans_b) = (i32::from(a_transposed), i32::from(b_transposed));
        description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &trans_a)?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &trans_b)?;
        if op.dtype == Dtype::Fp8 {
            description.set(Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &one)?;
            description.set(Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &one)?;
            // In tensor cores without promotion, as training frameworks sum forward.
            let fast: i8 = 1;
            description.set(Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast)?;
        }
        let stored = |transposed: bool, rows: u64, columns: u64| match transposed {
            true => Matrix::new(operand, columns, rows, op.batch),
            false => Matrix::new(operand, rows, columns, op.batch),
        };
        let a = stored(a_transposed, op.n, op.k)?;
        let b = stored(b_transposed, op.k, op.m)?;
        let c = Matrix::new(output, op.n, op.m, op.batch)?;
        let chosen = choose(handle, &description, [&a, &b, &c], op)?;
        Ok(Self {
            handle: Rc::clone(handle),
            description,
            a,
            b,
            c,
            chosen,
            workspace,
        })
    }
}

/// The first algorithm of the heuristic's list.
fn choose(
    handle: &Handle,
    description: &Description,
    [a, b, c]: [&Matrix; 3],
    op: &Gemm,
) -> Result<sys::cublasLtMatmulHeuristicResult_t> {
    let preference = result::create_matmul_pref().map_err(failed("describe a preference"))?;
    let preference = Preference(preference);
    let most = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    let bytes = WORKSPACE_BYTES as usize;
    // SAFETY: the preference is alive, and the limit is a `size_t` as documented.
    unsafe { result::set_matmul_pref_attribute(preference.0, most, pointer(&bytes), 8) }
        .map_err(failed("describe a preference"))?;
    let mut results = [const { MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::zeroed() }; ASKED as usize];
    let mut found = 0;
    // SAFETY: all descriptors are alive, and the list has as many places as are asked for.
    unsafe {
        sys::cublasLtMatmulAlgoGetHeuristic(
            handle.0,
            description.0,
            a.0,
            b.0,
            c.0,
            c.0,
            preference.0,
            ASKED as i32,
            results.as_mut_ptr().cast(),
            &raw mut found,
        )
    }
    .result()
    .map_err(failed(&format!("find an algorithm for {}", Op::Gemm(*op))))?;
    let found = results.iter().take(usize::try_from(found).unwrap_or(0));
    let mut results = found.filter_map(|result| {
        // SAFETY: the status lies in zeroed memory. It is read as the number that it is, since a newer library may have
        // more of them than the bindings know.
        let state = unsafe { (&raw const (*result.as_ptr()).state).cast::<u32>().read() };
        let success = sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS as u32;
        // SAFETY: with a status that is known, all of it is plain numbers that were zero or that the library wrote.
        (state == success).then(|| unsafe { result.assume_init_read() })
    });
    results
        .next()
        .ok_or_else(|| Error::infeasible(format!("cuBLASLt has no algorithm for {}", Op::Gemm(*op))))
}

/// An attribute of an algorithm; zero where the library does not report it.
fn attribute<T: Number>(algorithm: &sys::cublasLtMatmulAlgo_t, which: sys::cublasLtMatmulAlgoConfigAttributes_t) -> T {
    let mut value = T::default();
    let mut written = 0;
    // SAFETY: the value is a number of as many bytes as are announced, whatever bits the library writes.
    let _ = unsafe {
        sys::cublasLtMatmulAlgoConfigGetAttribute(
            algorithm,
            which,
            std::ptr::from_mut(&mut value).cast(),
            size_of::<T>(),
            &raw mut written,
        )
    };
    value
}

impl Algorithm for CublasLtGemm {
    fn enqueue(&self, driver: &Driver, operands: &Placement, set: u64) -> Result<()> {
        driver.bind()?;
        let (alpha, beta) = (1.0f32, 0.0f32);
        let at = |name: &str| operands.address(set, name);
        let output = at("c");
        // SAFETY: descriptors and handle are alive; the operands lie in the pool with the sizes and
        // formats that the matrices were described with; the scalars are read before the call
        // returns.
        unsafe {
            result::matmul(
                self.handle.0,
                self.description.0,
                pointer(&alpha),
                pointer(&beta),
                at("b") as *const c_void,
                self.a.0,
                at("a") as *const c_void,
                self.b.0,
                output as *const c_void,
                self.c.0,
                output as *mut c_void,
                self.c.0,
                &raw const self.chosen.algo,
                self.workspace as *mut c_void,
                WORKSPACE_BYTES as usize,
                driver.stream().cu_stream().cast(),
            )
        }
        .map_err(failed("run a GEMM"))
    }

    fn kernel(&self) -> Option<Kernel> {
        use sys::cublasLtMatmulAlgoConfigAttributes_t as Config;
        let algorithm = &self.chosen.algo;
        let id: i32 = attribute(algorithm, Config::CUBLASLT_ALGO_CONFIG_ID);
        let tile: u32 = attribute(algorithm, Config::CUBLASLT_ALGO_CONFIG_TILE_ID);
        let stages: u32 = attribute(algorithm, Config::CUBLASLT_ALGO_CONFIG_STAGES_ID);
        let split: i32 = attribute(algorithm, Config::CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
        let cluster: u16 = attribute(algorithm, Config::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
        Some(Kernel {
            name: Some(format!("cublaslt algorithm {id}")),
            tile: tuning::tile(tile),
            stages: tuning::stages(stages),
            split_k: u32::try_from(split).ok().map(|parts| parts.max(1)),
            cluster: tuning::cluster(cluster.into()),
            waves: Some(f64::from(self.chosen.wavesCount)).filter(|waves| waves.is_finite()),
            workspace_bytes: Some(self.chosen.workspaceSize as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_multiplied_is_refused_with_a_reason() {
        let fp8 = Gemm::square(64, Layout::Tn, Dtype::Fp8);
        assert_eq!(refuses(&fp8, (9, 0)), None);
        for (op, capability, reason) in [
            (fp8, (8, 0), "8.9"),
            (Gemm { k: 72, ..fp8 }, (9, 0), "multiples of 16"),
            (
                Gemm {
                    layout: Layout::Nn,
                    ..fp8
                },
                (9, 0),
                "tn only",
            ),
            (
                Gemm {
                    dtype: Dtype::Bf16,
                    ..fp8
                },
                (7, 5),
                "8.0",
            ),
            (Gemm { m: 0, ..fp8 }, (9, 0), "sizes"),
        ] {
            let said = refuses(&op, capability).unwrap();
            assert!(said.contains(reason), "{said}");
        }
    }
}
