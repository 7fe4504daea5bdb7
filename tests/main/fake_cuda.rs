//! The whole CUDA path without a GPU: a driver, an NVRTC and a cuBLASLt of our own run kernels and
//! GEMMs on the CPU.
//!
//! `tests/kernels/fake.cpp` compiles the very text that NVRTC would get, threads, barriers and
//! shuffles included, and holds calls to what a driver allows while a stream is captured. Each test
//! runs in a process of its own, as the libraries are found once per process.

use crate::skip::skip;
use shapewise::measure::cuda;
use shapewise::measure::device::Device;
use shapewise::ops::{Attention, Dtype, Gemm, Memory, MemoryKind, Op, Pass};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// The folder of the fake libraries, built once; `None` if there is no C++ compiler, said on
/// standard error.
pub fn fake() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
        let source = sources.join("fake.cpp");
        // Kept by the hash of its source, so that a second run need not compile and two at once do
        // not disturb each other.
        let mut hasher = DefaultHasher::new();
        for name in ["fake.cpp", "fake_cudnn.h"] {
            std::fs::read(sources.join(name)).unwrap().hash(&mut hasher);
        }
        let name = format!("fake-{:016x}", hasher.finish());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let library = folder.join("libfake.so");
        if library.exists() {
            return Some(folder);
        }
        let partial = folder.join(format!("{}.partial", std::process::id()));
        let built = Command::new("c++")
            .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-o"])
            .args([&partial, &source])
            .arg("-ldl")
            .status();
        let Ok(status) = built else {
            skip("c++", "there is no C++ compiler");
            return None;
        };
        assert!(status.success(), "fake.cpp does not compile");
        for name in ["libcuda", "libnvrtc", "libcublasLt"] {
            for ending in ["so", "so.1", "so.13"] {
                let _ = std::os::unix::fs::symlink("libfake.so", folder.join(format!("{name}.{ending}")));
            }
        }
        std::fs::rename(&partial, &library).unwrap();
        Some(folder)
    });
    folder.as_deref()
}

/// Runs an ignored test below in a process that finds the libraries of `folder` and no others.
pub fn run_alone(test: &str, folder: &Path, settings: &[(&str, &str)]) {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-kernels");
    std::fs::create_dir_all(&kept).unwrap();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/host.h");
    let compiler = Command::new("sh").args(["-c", "command -v c++"]).output().unwrap();
    let compiler = String::from_utf8(compiler.stdout).unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .env_clear()
        .env("LD_LIBRARY_PATH", folder)
        .env("FAKE_FOLDER", &kept)
        .env("FAKE_HEADER", &header)
        // A linker without a path of its own finds its parts beside the compiler.
        .env("FAKE_CXX", format!("PATH=/usr/bin:/bin {}", compiler.trim()))
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (output, errors) = (said(&run.stdout), said(&run.stderr));
    assert!(run.status.success(), "{test}\n{output}\n{errors}");
    assert!(output.contains("1 passed"), "{test} is no test\n{output}");
}

/// A folder with these libraries of the fake.
pub fn libraries(fake: &Path, names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        std::os::unix::fs::symlink(fake.join("libfake.so"), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn every_kernel_and_gemm_agrees_with_the_reference() {
    if let Some(folder) = fake() {
        run_alone("fake_cuda::alone::checks_pass", folder, &[]);
    }
}

#[test]
fn chains_are_captured_once_and_timed_around_their_graph() {
    if let Some(folder) = fake() {
        let log = folder.join("calls.log");
        let log = [("FAKE_LOG", log.to_str().unwrap())];
        run_alone("fake_cuda::alone::chains_run", folder, &log);
    }
}

#[test]
fn what_is_missing_is_one_sentence() {
    let nothing = tempfile::tempdir().unwrap();
    run_alone("fake_cuda::alone::no_driver", nothing.path(), &[]);
    if let Some(folder) = fake() {
        let (none, old) = ([("FAKE_DEVICES", "0")], [("FAKE_DRIVER", "12040")]);
        run_alone("fake_cuda::alone::no_device", folder, &none);
        run_alone("fake_cuda::alone::an_old_driver", folder, &old);
        let driver = libraries(folder, &["libcuda.so.1"]);
        run_alone("fake_cuda::alone::no_cublaslt", driver.path(), &[]);
        let gemms = libraries(folder, &["libcuda.so.1", "libcublasLt.so.13"]);
        run_alone("fake_cuda::alone::no_nvrtc", gemms.path(), &[]);
    }
}

/// What runs in processes of its own; see [`run_alone`].
mod alone {
    use super::*;

    fn gemm(m: u64, n: u64, k: u64, dtype: Dtype) -> Op {
        Op::Gemm(Gemm {
            dtype,
            ..Gemm::new(m, n, k)
        })
    }

    fn memory(kind: MemoryKind, pass: Pass) -> Op {
        let (rows, cols, dtype) = (300, 500, Dtype::Bf16);
        Op::Memory(Memory {
            kind,
            rows,
            cols,
            pass,
            dtype,
        })
    }

    fn sentence(result: shapewise::error::Result<cuda::CudaDevice>) -> String {
        let error = result.err().expect("an error").to_string();
        assert!(!error.contains('\n') && error.len() < 600, "{error}");
        error
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn checks_pass() {
        let mut device = cuda::open(0).unwrap();
        assert_eq!(device.identity().gpu, "h200");
        let stack = &device.identity().stack;
        assert!(stack.starts_with("cublaslt 13.1.0"), "{stack}");
        let checks = device.check(&Dtype::ELEMENTS).unwrap();
        let checked = &checks.compared;
        let wrong: Vec<_> = checked.iter().filter(|path| path.is_wrong()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(checks.not_run.is_empty(), "{:#?}", checks.not_run);
        // 15 kinds and their passes in three formats, four layouts in five: far fewer would mean
        // that paths are refused.
        assert!(checked.len() > 450, "{} paths were checked", checked.len());
        let kinds = [
            "adam forward",
            "embedding backward",
            "layer_norm backward",
            "quantize forward",
            "rotary backward",
            "tt fp16",
            "tn fp8",
        ];
        for kind in kinds {
            assert!(checked.iter().any(|path| path.name.contains(kind)), "{kind}");
        }
        let slack = checked.iter().map(|path| path.error / path.allowed);
        println!(
            "{} paths, the worst at {:.3} of what is allowed",
            checked.len(),
            slack.fold(0.0, f64::max)
        );
    }

    /// The calls since the last look.
    fn calls() -> Vec<String> {
        let path = std::env::var("FAKE_LOG").unwrap();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, "").unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn chains_run() {
        let mut device = cuda::open(0).unwrap();
        let small = gemm(48, 64, 32, Dtype::Bf16);
        let mut chain = device.open(&small).unwrap();
        let kernel = chain.kernel().unwrap();
        // cuBLASLt's 128x256 by columns is 256x128 by rows.
        assert_eq!((kernel.tile, kernel.stages), (Some((256, 128)), Some(2)));
        assert_eq!((kernel.cluster, kernel.split_k), (Some((1, 2)), Some(1)));
        assert_eq!(kernel.waves, Some(1.5));
        calls();
        assert!(chain.trial().unwrap().micros() > 0.0);
        let events = [
            "event record",
            "gemm",
            "event record",
            "event synchronize",
            "event synchronize",
        ];
        assert_eq!(calls(), [&["launch read", "launch hold"][..], &events].concat());
        chain.record(3).unwrap();
        let captured = [
            "capture begin",
            "event node",
            "gemm",
            "gemm",
            "gemm",
            "event node",
            "capture end",
            "graph instantiate",
            "graph upload",
        ];
        assert_eq!(calls(), captured);
        for _ in 0..2 {
            let replay = chain.replay().unwrap();
            assert!(replay.elapsed.micros() > 0.0);
            assert_eq!(replay.clock, None);
            let replayed = [
                "launch read",
                "launch hold",
                "launch stamp",
                "graph launch",
                "launch stamp",
                "stream synchronize",
                "event synchronize",
                "event synchronize",
                "stream synchronize",
                "memory read",
            ];
            assert_eq!(calls(), replayed);
        }
        // A new chain takes the place of the old one.
        chain.record(1).unwrap();
        assert_eq!(calls()[0], "graph destroy");
        drop(chain);
        assert_eq!(calls(), ["graph destroy"]);

        // A chain whose own operands outgrow the cache is not flushed.
        let mut large = device.open(&gemm(1024, 1024, 8, Dtype::Fp32)).unwrap();
        large.record(2).unwrap();
        calls();
        large.replay().unwrap();
        assert!(!calls().contains(&"launch read".to_owned()));
        drop(large);

        // Every kind opens, with operands that its kernel can live with, and runs in a chain.
        use MemoryKind as K;
        for kind in [
            K::Softmax,
            K::Mask,
            K::Dropout,
            K::LayerNorm,
            K::Embedding,
            K::CrossEntropy,
            K::Adam,
            K::Permute,
            K::Rotary,
            K::Quantize,
        ] {
            for pass in Pass::ALL {
                let case = memory(kind, pass);
                if let Some(reason) = device.refuses(&case) {
                    assert!([K::Adam, K::Quantize].contains(&kind), "{reason}");
                    continue;
                }
                let mut chain = device.open(&case).unwrap();
                chain.record(5).unwrap();
                chain.replay().unwrap();
            }
        }
        let fp8 = gemm(64, 64, 64, Dtype::Fp8);
        device.open(&fp8).unwrap().trial().unwrap();

        // What cannot run is refused with a reason, and opening it anyway is an error, not a panic.
        let huge = gemm(1 << 20, 1 << 20, 64, Dtype::Bf16);
        assert!(device.refuses(&huge).unwrap().contains("do not fit"));
        let reason = device.refuses(&attention()).unwrap();
        assert!(reason.contains("cuDNN") && reason.contains("was not found"), "{reason}");
        assert!(device.open(&attention()).is_err());

        // The library's choice needs neither operands nor a launch, on any thread.
        calls();
        let open = device.chooser().unwrap();
        let chosen = std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let mut choose = open().unwrap();
                let odd = choose(&Gemm {
                    dtype: Dtype::Fp8,
                    ..Gemm::new(8, 24, 48)
                });
                (choose(&Gemm::new(48, 64, 32)).unwrap(), odd.unwrap_err().to_string())
            });
            asked.join().unwrap()
        });
        assert_eq!(chosen.0.name.as_deref(), Some("cublaslt algorithm 60"));
        assert_eq!((chosen.0.tile, chosen.0.stages), (Some((256, 128)), Some(2)));
        assert!(chosen.1.contains("multiples of 16"), "{}", chosen.1);
        assert!(!calls().iter().any(|call| call.starts_with("launch")));
        drop(open);

        device.soak(Duration::from_millis(50)).unwrap();
        assert_eq!(device.sensors().power_watts, None);
        calls();
        drop(device);
        assert_eq!(
            calls(),
            ["cublas destroy", "memory free", "stream destroy", "context release"]
        );
    }

    fn attention() -> Op {
        Op::Attention(Attention::new(1, 4, 128, 64))
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn no_driver() {
        let error = sentence(cuda::open(0));
        assert!(
            error.contains("the CUDA driver (libcuda.so.1) was not found"),
            "{error}"
        );
        let looked = std::env::var("LD_LIBRARY_PATH").unwrap();
        assert!(
            error.contains(&looked),
            "{error} does not say that it looked in {looked}"
        );
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn no_device() {
        let error = sentence(cuda::open(0));
        assert!(error.contains("CUDA_ERROR_NO_DEVICE"), "{error}");
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn an_old_driver() {
        let error = sentence(cuda::open(0));
        assert!(error.contains("CUDA 12.4; 12.8 or newer"), "{error}");
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn no_cublaslt() {
        let error = sentence(cuda::open(0));
        assert!(
            error.contains("cuBLASLt (libcublasLt.so.13 or libcublasLt.so.12) was not found"),
            "{error}"
        );
        assert!(sentence(cuda::open(7)).contains("cuda:7"));
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn no_nvrtc() {
        let mut device = cuda::open(0).unwrap();
        let copy = memory(MemoryKind::Copy, Pass::Forward);
        let reason = device.refuses(&copy).unwrap();
        assert!(reason.contains("NVRTC") && reason.contains("was not found"), "{reason}");
        // GEMMs need no kernel of ours.
        let checked = device.check(&Dtype::ELEMENTS).unwrap().compared;
        assert!(!checked.is_empty() && checked.iter().all(|path| !path.is_wrong()));
        let mut chain = device.open(&gemm(48, 64, 32, Dtype::Fp16)).unwrap();
        chain.record(4).unwrap();
        assert_eq!(chain.replay().unwrap().clock, None);
    }
}
