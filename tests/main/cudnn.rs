//! cuDNN's graphs of attention without a GPU: they finalize, the heuristic has engines for an H200,
//! plans compile.
//!
//! cuDNN's wheel is 366 MB, so this is asked for: `SHAPEWISE_CUDNN` names a Python environment that
//! has it with NVRTC. A driver's library must be there for the heuristic; one that has no device is
//! made from the names that cuDNN asks for.

use shapewise::measure::cuda::cudnn::described::{DeviceProperties, candidates};
use shapewise::measure::cuda::cudnn::refuses;
use shapewise::ops::{Attention, Dtype, Pass};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What cuDNN calls the properties of an H200; the values are those of NVIDIA's data sheet and of
/// its runtime.
const H200: &str = r#"{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,
"multiProcessorCount":132,"smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,
"maxRegistersPerSM":65536,"pciDeviceId":0,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,
"isTccDriver":0,"supportCoopLaunch":1,"deviceVer":900,"driverVer":13000,"cudaDeviceId":0,
"totalGlobalMem":150754820096,"deviceName":"NVIDIA H200"}"#;

/// What a driver without a device answers with success, as far as compiling a plan needs it.
const ANSWERS: &str = r#"
int cuDriverGetVersion(int*v){*v=13000;return 0;}
int cuGetErrorString(int e,const char**s){*s="no device";return 0;}
int cuGetErrorName(int e,const char**s){*s="CUDA_ERROR_NO_DEVICE";return 0;}
int cuLibraryLoadData(void**l,const void*c,void*a,void*b,unsigned n,void*d,void*e,unsigned m){*l=(void*)0x1000;return 0;}
int cuLibraryUnload(void*l){return 0;}
int cuLibraryGetKernel(void**k,void*l,const char*n){*k=(void*)0x2000;return 0;}
int cuKernelGetFunction(void**f,void*k){*f=(void*)0x3000;return 0;}
int cuKernelSetAttribute(int a,int v,void*k,int d){return 0;}
int cuKernelGetAttribute(int*p,int a,void*k,int d){*p=0;return 0;}
int cuFuncSetAttribute(void*f,int a,int v){return 0;}
"#;

/// The names of the driver's functions in a library: `cu` and a capital, in zero-ended texts.
fn entry_points(library: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(library).unwrap();
    let texts = bytes.split(|byte| !byte.is_ascii_graphic());
    let names = texts.filter_map(|text| {
        let rest = text.strip_prefix(b"cu")?;
        let named = rest.first()?.is_ascii_uppercase() && rest.len() > 3;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let driver = named && rest.iter().all(plain);
        driver.then(|| String::from_utf8_lossy(text).into_owned())
    });
    names.collect()
}

/// A folder with a `libcuda.so.1` that has no device.
fn driver(packages: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut names = BTreeSet::new();
    for library in ["libcudnn_graph.so.9", "libcudnn_engines_runtime_compiled.so.9"] {
        names.extend(entry_points(&packages.join("cudnn/lib").join(library)));
    }
    let mut source = ANSWERS.to_owned();
    for name in names.iter().filter(|name| !ANSWERS.contains(&format!("int {name}("))) {
        source.push_str(&format!("int {name}(void){{return 100;}}\n"));
    }
    let (text, library) = (folder.path().join("stub.c"), folder.path().join("libcuda.so.1"));
    std::fs::write(&text, source).unwrap();
    let status = Command::new("cc")
        .args(["-w", "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-o"])
        .args([&library, &text])
        .status()
        .unwrap();
    assert!(status.success());
    folder
}

/// A Python environment with cuDNN's wheel, and a driver without a device for it; `None` if
/// there is none, said on standard error.
fn environment() -> Option<(PathBuf, tempfile::TempDir)> {
    let Some(prefix) = std::env::var_os("SHAPEWISE_CUDNN").map(PathBuf::from) else {
        crate::skip::skip(
            "cudnn",
            "SHAPEWISE_CUDNN names no Python environment with cuDNN's wheel",
        );
        return None;
    };
    let versions = std::fs::read_dir(prefix.join("lib")).unwrap();
    let mut packages = versions.map(|entry| entry.unwrap().path().join("site-packages/nvidia"));
    let packages = packages.find(|folder| folder.join("cudnn").exists()).unwrap();
    let driver = driver(&packages);
    Some((prefix, driver))
}

/// An ignored test of this file, to run in a process that finds these libraries.
fn in_process(test: &str, (prefix, driver): &(PathBuf, tempfile::TempDir)) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "--nocapture", test])
        .env_clear()
        .env("LD_LIBRARY_PATH", driver.path())
        .env("VIRTUAL_ENV", prefix);
    command
}

#[test]
fn attention_graphs_finalize_and_compile_for_an_absent_gpu() {
    let Some(environment) = environment() else {
        return;
    };
    let run = in_process("cudnn::alone", &environment).output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    println!("{output}");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && output.contains("1 passed"),
        "{output}\n{errors}"
    );
}

/// Plans a second that workers compile, as threads of one process and as processes. The figures of
/// `docs/method/measuring.md` are of this test:
/// `cargo test --test main cudnn::workers_compile -- --ignored --nocapture`.
#[test]
#[ignore = "measures for minutes"]
fn workers_compile_faster_together() {
    let Some(environment) = environment() else {
        return;
    };
    let started = |processes: usize, threads: usize| {
        let mut command = in_process("cudnn::compiling", &environment);
        let mut running: Vec<_> = (0..processes)
            .map(|process| {
                command.env("WORKERS", format!("{threads} {process}"));
                command.stdout(std::process::Stdio::null()).spawn().unwrap()
            })
            .collect();
        let begin = std::time::Instant::now();
        for child in &mut running {
            assert!(child.wait().unwrap().success());
        }
        begin.elapsed().as_secs_f64()
    };
    let plans = |workers: usize| (workers * PLANS_OF_A_WORKER) as f64;
    // What a process takes to start and to load the libraries is no part of compiling.
    let start = started(1, 0);
    println!("start of a process: {start:.2} s");
    for workers in [1, 2, 4] {
        let (threads, processes) = (started(1, workers), started(workers, 1));
        println!(
            "{workers} workers: {:.2} plans a second as threads, {:.2} as processes",
            plans(workers) / (threads - start),
            plans(workers) / (processes - start),
        );
    }
}

/// Plans that each worker compiles in [`compiling`].
const PLANS_OF_A_WORKER: usize = 12;

#[test]
#[ignore = "runs in a process of its own"]
fn compiling() {
    let workers = std::env::var("WORKERS").unwrap();
    let (threads, first) = workers.split_once(' ').unwrap();
    let (threads, first): (usize, usize) = (threads.parse().unwrap(), first.parse().unwrap());
    DeviceProperties::from_json(H200).unwrap();
    let compile = |worker: usize| {
        let device = DeviceProperties::from_json(H200).unwrap();
        for plan in 0..PLANS_OF_A_WORKER {
            // No two workers compile the same shape; both passes, three sizes of heads.
            let seq = 256 + 128 * (worker * PLANS_OF_A_WORKER + plan) as u64;
            let op = Attention {
                pass: Pass::ALL[plan % 2],
                ..Attention::new(1, 8, seq, [64, 96, 128][plan % 3])
            };
            let (_, planned) = candidates(&op, &device, true).unwrap();
            assert!(planned.unwrap().kernel.contains("sdpa"));
        }
    };
    let compile = &compile;
    std::thread::scope(|scope| {
        for worker in 0..threads {
            scope.spawn(move || compile(first + worker));
        }
    });
}

#[test]
#[ignore = "runs in a process of its own"]
fn alone() {
    let device = DeviceProperties::from_json(H200).unwrap();
    let forward = Attention {
        kv_heads: 8,
        causal: false,
        ..Attention::new(2, 32, 4096, 128)
    };
    let mut shapes = Vec::new();
    for dtype in [Dtype::Bf16, Dtype::Fp16] {
        for causal in [false, true] {
            for (heads, kv_heads) in [(32, 8), (12, 12), (7, 1)] {
                for (seq, head_dim) in [(4096, 128), (200, 80), (128, 64), (17, 64), (1001, 256)] {
                    shapes.extend(Pass::ALL.map(|pass| Attention {
                        dtype,
                        causal,
                        kv_heads,
                        pass,
                        ..Attention::new(2, heads, seq, head_dim)
                    }));
                }
            }
        }
    }
    shapes.extend(Pass::ALL.map(|pass| Attention {
        seq_q: 64,
        pass,
        ..forward
    }));
    for causal in [false, true] {
        shapes.push(Attention {
            seq_q: 1,
            causal,
            ..forward
        });
        shapes.push(Attention {
            seq_q: 1,
            kv_heads: 2,
            causal,
            ..Attention::new(2, 4, 130, 64)
        });
    }
    let latent = Attention {
        head_dim: 192,
        ..Attention::new(2, 16, 4096, 128)
    };
    shapes.push(latent);
    let mut without = Vec::new();
    for op in &shapes {
        assert_eq!(refuses(op), None, "{op:?}");
        let (engines, _) = candidates(op, &device, false).unwrap_or_else(|error| panic!("{op:?}: {error}"));
        if engines == 0 {
            without.push(format!("{op:?}"));
        }
    }
    println!(
        "{} graphs finalize, {} without an engine: {without:#?}",
        shapes.len(),
        without.len()
    );
    for causal in [false, true] {
        for pass in Pass::ALL {
            let op = Attention {
                causal,
                pass,
                ..forward
            };
            let (engines, planned) = candidates(&op, &device, true).unwrap();
            let planned = planned.unwrap();
            println!("{pass:?} causal {causal}: {engines} engines, {planned:?}");
            let flash = if pass == Pass::Forward {
                "sm90_flash_fprop"
            } else {
                "sm90_flash_bprop"
            };
            assert!(planned.kernel.contains(flash), "{planned:?}");
        }
    }
    let decode = Attention { seq_q: 1, ..forward };
    println!("decode: {:?}", candidates(&decode, &device, true));
    println!("latent: {:?}", candidates(&latent, &device, true));
}
