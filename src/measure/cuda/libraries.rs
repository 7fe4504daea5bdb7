//! Finding the libraries of CUDA: the driver, cuBLASLt, NVRTC and cuDNN, wherever a user has them.
//!
//! A library is opened by full path from the folders below, in their order, before the bindings
//! open it by name; the loader then returns the open one. So PyTorch's wheels in a virtual
//! environment are enough, without `LD_LIBRARY_PATH`. The bindings panic when a library is missing,
//! so they are called only after [`Library::require`].

use crate::error::{Error, Result};
use libloading::os::unix::{Library as Handle, RTLD_GLOBAL, RTLD_LAZY};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A library that measuring on CUDA needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The driver: without it there is no device.
    Driver,
    /// GEMMs.
    CublasLt,
    /// The compiler of our own kernels.
    Nvrtc,
    /// Attention.
    Cudnn,
    /// The sensors; it comes with the driver.
    Nvml,
}

impl Library {
    /// Its name in messages, its file names in the order of preference, and where to get it.
    const fn about(self) -> (&'static str, &'static [&'static str], &'static str) {
        const DRIVER: &str = "it comes with the NVIDIA driver";
        match self {
            Self::Driver => ("the CUDA driver", &["libcuda.so.1"], DRIVER),
            Self::CublasLt => (
                "cuBLASLt",
                &["libcublasLt.so.13", "libcublasLt.so.12"],
                "install the CUDA toolkit, or `pip install nvidia-cublas`",
            ),
            Self::Nvrtc => (
                "NVRTC",
                &["libnvrtc.so.13", "libnvrtc.so.12"],
                "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`",
            ),
            Self::Cudnn => (
                "cuDNN",
                &["libcudnn.so.9"],
                "install cuDNN 9, or `pip install nvidia-cudnn-cu13`",
            ),
            Self::Nvml => ("NVML", &["libnvidia-ml.so.1"], DRIVER),
        }
    }

    /// Whether the bindings find it; they look for it once.
    fn is_bound(self) -> bool {
        // SAFETY: these open a library by name, which runs its initialisers; the libraries of CUDA
        // allow that.
        unsafe {
            match self {
                Self::Driver => cudarc::driver::sys::is_culib_present(),
                Self::CublasLt => cudarc::cublaslt::sys::is_culib_present(),
                Self::Nvrtc => cudarc::nvrtc::sys::is_culib_present(),
                Self::Cudnn => cudarc::cudnn::sys::is_culib_present(),
                Self::Nvml => true,
            }
        }
    }

    fn slot(self) -> &'static OnceLock<std::result::Result<(), String>> {
        static SLOTS: [OnceLock<std::result::Result<(), String>>; 5] =
            [const { OnceLock::new() }; 5];
        &SLOTS[self as usize]
    }

    /// Opens it for good, or says in one sentence which library is missing and where it was looked
    /// for.
    ///
    /// The first answer stays: what is open cannot be closed, and what is missing does not appear
    /// while we run.
    pub fn require(self) -> Result<()> {
        let found = self.slot().get_or_init(|| self.open());
        found.clone().map_err(Error::infeasible)
    }

    fn open(self) -> std::result::Result<(), String> {
        if self == Self::Cudnn {
            // It compiles its kernels with NVRTC and finds one that is open.
            let _ = Self::Nvrtc.require();
        }
        let (title, files, advice) = self.about();
        let folders = folders();
        let opened = folders
            .iter()
            .any(|folder| files.iter().any(|file| open_in(folder, file)))
            || files.iter().any(|file| open_path(Path::new(file)));
        if opened && self.is_bound() {
            return Ok(());
        }
        let listed: Vec<_> = folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        Err(format!(
            "{title} ({}) was not found by the system's loader nor in {}; {advice}",
            files.join(" or "),
            match listed.is_empty() {
                true => "LD_LIBRARY_PATH, CUDA_PATH or a Python environment".to_owned(),
                false => listed.join(", "),
            }
        ))
    }
}

/// Opens a file for all that is loaded later, and never closes it.
fn open_path(path: &Path) -> bool {
    // SAFETY: opening runs the initialisers of the library; the libraries of CUDA allow that at any
    // time.
    match unsafe { Handle::open(Some(path), RTLD_LAZY | RTLD_GLOBAL) } {
        Ok(handle) => {
            std::mem::forget(handle);
            true
        }
        Err(_) => false,
    }
}

/// Opens a library from a folder, what it looks for by name before it.
fn open_in(folder: &Path, file: &str) -> bool {
    let path = folder.join(file);
    if !path.exists() {
        return false;
    }
    if file.starts_with("libnvrtc.") {
        // NVRTC looks for its builtins by name, and the wheels do not tell the loader where they
        // are.
        for builtins in children(folder) {
            let name = builtins.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("libnvrtc-builtins.so.") {
                open_path(&builtins);
            }
        }
    }
    open_path(&path)
}

/// What stands in a folder, in order; nothing where it cannot be read.
fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The folders that exist, in the order in which they are searched: `LD_LIBRARY_PATH`, the toolkit
/// that `CUDA_PATH` or `CUDA_HOME` names, the Python environment that is active or first on the
/// path, the usual places.
fn folders() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let paths = |name: &str| env::var_os(name).map(|value| env::split_paths(&value).collect());
    found.extend(paths("LD_LIBRARY_PATH").unwrap_or_else(Vec::new));
    for toolkit in ["CUDA_PATH", "CUDA_HOME"] {
        if let Some(root) = env::var_os(toolkit).map(PathBuf::from) {
            found.extend([root.join("lib64"), root.join("lib")]);
        }
    }
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        prefixes.extend(env::var_os(environment).map(PathBuf::from));
    }
    for folder in paths("PATH").unwrap_or_else(Vec::new) {
        if folder.join("python3").exists() {
            prefixes.extend(folder.parent().map(Path::to_owned));
        }
    }
    for prefix in prefixes {
        found.extend(wheels(&prefix));
    }
    for usual in [
        "/usr/local/cuda/lib64",
        "/usr/local/nvidia/lib64",
        "/usr/lib/wsl/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
    ] {
        found.push(usual.into());
    }
    let mut seen = BTreeSet::new();
    found.retain(|folder| {
        let named = !folder.as_os_str().is_empty();
        named && folder.is_dir() && seen.insert(folder.clone())
    });
    found
}

/// The folders of NVIDIA's wheels below the prefix of a Python, of all its versions.
fn wheels(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for version in children(&prefix.join("lib")) {
        let name = version.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("python3") {
            continue;
        }
        for packages in ["site-packages", "dist-packages"] {
            for wheel in children(&version.join(packages).join("nvidia")) {
                found.push(wheel.join("lib"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_found_below_a_python_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib/python3.12/site-packages/nvidia");
        for wheel in ["cudnn/lib", "cu13/lib"] {
            fs::create_dir_all(lib.join(wheel)).unwrap();
        }
        fs::create_dir_all(folder.path().join("lib/other")).unwrap();
        let found = wheels(folder.path());
        assert_eq!(found, [lib.join("cu13/lib"), lib.join("cudnn/lib")]);
    }

    #[test]
    fn a_file_that_is_no_library_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libcudnn.so.9"), "no library").unwrap();
        assert!(!open_in(folder.path(), "libcudnn.so.9"));
        assert!(!open_in(folder.path(), "libcublasLt.so.13"));
    }
}
