//! Our CUDA kernels without a GPU: every source compiles for the architectures that we promise.

use crate::skip::skip;
use shapewise::measure::cuda::compile::{Compiled, Source, architecture, compile};
use shapewise::measure::cuda::libraries::Library;
use shapewise::ops::Dtype;

/// Whether NVRTC is installed; else the test is skipped.
fn nvrtc() -> bool {
    let Err(error) = Library::Nvrtc.require() else {
        return true;
    };
    skip("nvrtc", error);
    false
}

/// Every format with its widest accesses and with single elements.
const VARIANTS: [(Dtype, u64); 5] = [
    (Dtype::Bf16, 8),
    (Dtype::Bf16, 1),
    (Dtype::Fp16, 8),
    (Dtype::Fp16, 1),
    (Dtype::Fp32, 4),
];

/// What ptxas says of each kernel of a log, by the words before `bytes`: `("spill stores", 0)`.
fn spilled(compiled: &Compiled) -> u64 {
    let lines = compiled.log.lines();
    let spills = lines.filter(|line| line.contains("spill stores"));
    spills
        .map(|line| {
            let stores = line.split("bytes spill stores").next().unwrap();
            let number = stores.trim().rsplit(' ').next().unwrap();
            number.parse::<u64>().unwrap()
        })
        .sum()
}

#[test]
fn every_kernel_compiles_for_every_promised_architecture_without_spills() {
    if !nvrtc() {
        return;
    }
    for source in Source::ALL {
        for (dtype, vector) in VARIANTS {
            for target in ["sm_80", "sm_90a", "compute_90"] {
                let name = format!("{} {dtype:?} x{vector} {target}", source.name());
                let compiled = compile(source, dtype, vector, target).unwrap_or_else(|error| panic!("{name}: {error}"));
                let machine = target.starts_with("sm_");
                assert_eq!(compiled.image.starts_with(b"\x7fELF"), machine, "{name}");
                assert_eq!(spilled(&compiled), 0, "{name}\n{}", compiled.log);
                // Arrays that are indexed at run time would lie in local memory, which is device
                // memory.
                let frames = compiled.log.matches("bytes stack frame").count();
                let empty = compiled.log.matches(" 0 bytes stack frame").count();
                assert_eq!(frames, empty, "{name}\n{}", compiled.log);
                // Without the report, the check of spills would hold for nothing.
                let reported = compiled.log.contains("spill stores");
                assert_eq!(reported, machine, "{name}\n{}", compiled.log);
            }
        }
    }
    // Operands of fp8 GEMMs are only filled.
    for target in ["sm_80", "sm_90a", "compute_90"] {
        compile(Source::Fill, Dtype::Fp8, 16, target).unwrap();
    }
}

#[test]
fn wide_variants_move_16_bytes_at_once() {
    if !nvrtc() {
        return;
    }
    for source in Source::ALL {
        let ptx = compile(source, Dtype::Bf16, 8, "compute_90").unwrap().ptx;
        let moves = |what: &str| ptx.matches(what).count();
        let reads =
            moves("ld.global.v4") + moves("ld.global.nc.v4") + moves("ld.global.v2.u64") + moves("ld.global.nc.v2.u64");
        let writes = moves("st.global.v4") + moves("st.global.v2.u64");
        assert!(reads > 0 || source == Source::Fill, "{}", source.name());
        // A cast writes half of the bytes that it reads.
        assert!(writes > 0 || source == Source::Quantize, "{}", source.name());
        let narrow = moves("ld.global.nc.u16") + moves("ld.global.u16");
        println!(
            "{}: {reads} wide reads, {writes} wide writes, {narrow} reads of 2 bytes",
            source.name()
        );
    }
}

#[test]
fn a_device_gets_its_own_architecture_or_ptx() {
    if !nvrtc() {
        return;
    }
    assert_eq!(architecture(9, 0).unwrap(), "sm_90");
    assert_eq!(architecture(8, 0).unwrap(), "sm_80");
    assert!(architecture(99, 0).unwrap().starts_with("compute_"));
    let error = architecture(1, 0).unwrap_err().to_string();
    assert!(error.contains("compute capability 1.0"), "{error}");
}
