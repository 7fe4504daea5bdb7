//! Finding the libraries of CUDA: the driver, cuBLASLt, NVRTC and cuDNN, wherever a user has them.
//!
//! The bindings open `libX.so` by name first. Where the system's loader answers that name, its file is
//! the one that is used; else a library is opened by full path from the folders below, in their
//! order, and the loader returns the open one when the bindings ask for its versioned name. So
//! PyTorch's wheels in a virtual environment are enough, without `LD_LIBRARY_PATH`. Two files of one
//! library in the process are refused. The bindings panic when a library is missing, so they are
//! called only after [`Library::require`].

use crate::error::{Error, Result};
use libloading::os::unix::{Library as Handle, RTLD_LAZY, RTLD_LOCAL};
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
    /// Every library.
    pub(super) const ALL: [Self; 5] = [Self::Driver, Self::CublasLt, Self::Nvrtc, Self::Cudnn, Self::Nvml];

    /// Beginning of its file names, up to their version.
    const fn stem(self) -> &'static str {
        match self {
            Self::Driver => "libcuda.so",
            Self::CublasLt => "libcublasLt.so",
            Self::Nvrtc => "libnvrtc.so",
            Self::Cudnn => "libcudnn.so",
            Self::Nvml => "libnvidia-ml.so",
        }
    }

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
        static SLOTS: [OnceLock<std::result::Result<(), String>>; 5] = [const { OnceLock::new() }; 5];
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
        let by_name = self != Self::Nvml && open_path(Path::new(self.stem()));
        if by_name && self == Self::Nvrtc {
            // Its builtins lie beside the file that the name links to.
            let own = mapped().into_iter().filter_map(|file| file.of(self));
            for path in own {
                open_builtins(path.parent().unwrap_or(Path::new("/")));
            }
        }
        let opened = by_name
            || folders
                .iter()
                .any(|folder| files.iter().any(|file| open_in(folder, file)))
            || files.iter().any(|file| open_path(Path::new(file)));
        if opened && self.is_bound() {
            return Self::ALL
                .into_iter()
                .try_for_each(|library| library.refuse_copies(&mapped()));
        }
        let listed: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
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

impl Library {
    /// The files of this library that this process has open; empty if the system does not list them.
    pub fn files(self) -> Vec<PathBuf> {
        mapped().into_iter().filter_map(|file| file.of(self)).collect()
    }

    /// Refuses two files of one release of the library, of which the caller and another library might
    /// use one each.
    fn refuse_copies(self, mapped: &[Mapped]) -> std::result::Result<(), String> {
        let own: Vec<_> = mapped.iter().filter_map(|file| file.of(self)).collect();
        let release = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let version = name.strip_prefix(self.stem()).unwrap_or_default();
            version.split('.').nth(1).map(str::to_owned)
        };
        for (place, one) in own.iter().enumerate() {
            for two in &own[..place] {
                let (first, second) = (release(one), release(two));
                if first == second || first.is_none() || second.is_none() {
                    let (title, _, _) = self.about();
                    return Err(format!(
                        "two files of {title} are loaded, {} and {}; allowed: one, such as a folder with a link {} to one of them, first in LD_LIBRARY_PATH",
                        two.display(),
                        one.display(),
                        self.stem()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A file that is mapped into this process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mapped {
    /// Device and inode: links to one file are one file.
    identity: String,
    path: PathBuf,
}

impl Mapped {
    fn of(&self, library: Library) -> Option<PathBuf> {
        let name = self.path.file_name()?.to_str()?;
        let rest = name.strip_prefix(library.stem())?;
        (rest.is_empty() || rest.starts_with('.')).then(|| self.path.clone())
    }
}

/// The files that are mapped into this process, each once.
fn mapped() -> Vec<Mapped> {
    parse_maps(&fs::read_to_string("/proc/self/maps").unwrap_or_default())
}

/// The files of a list of mappings: address, rights, offset, device, inode, path.
fn parse_maps(text: &str) -> Vec<Mapped> {
    let files = text.lines().filter_map(|line| {
        let at = line.find('/')?;
        let mut fields = line[..at].split_whitespace().skip(3);
        Some(Mapped {
            identity: format!("{} {}", fields.next()?, fields.next()?),
            path: line[at..].into(),
        })
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files.dedup_by(|one, two| one.identity == two.identity);
    files
}

/// Opens a file for this process, and never closes it.
fn open_path(path: &Path) -> bool {
    // SAFETY: opening runs the initialisers of the library; the libraries of CUDA allow that at any
    // time.
    match unsafe { Handle::open(Some(path), RTLD_LAZY | RTLD_LOCAL) } {
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
        open_builtins(folder);
    }
    open_path(&path)
}

/// Opens the builtins of NVRTC, which it looks for by name: the wheels do not show the loader where
/// they are.
fn open_builtins(folder: &Path) {
    for builtins in children(folder) {
        let name = builtins.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libnvrtc-builtins.so.") {
            open_path(&builtins);
        }
    }
}

/// The entries of a folder, in order; empty if it cannot be read.
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
        prefixes.extend(prefixes_of(&folder.join("python3")));
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

/// The prefix of a Python, and those of the files that it is a link to, one after the other.
fn prefixes_of(python: &Path) -> Vec<PathBuf> {
    const MOST_LINKS: usize = 8;
    let mut found = Vec::new();
    let mut at = python.to_owned();
    for _ in 0..MOST_LINKS {
        if !at.exists() {
            break;
        }
        let folder = at.parent().unwrap_or(Path::new("/")).to_owned();
        found.extend(folder.parent().map(Path::to_owned));
        match fs::read_link(&at) {
            // A relative target is relative to the folder of the link.
            Ok(target) => at = folder.join(target),
            Err(_) => break,
        }
    }
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
    fn a_link_to_a_python_leads_to_its_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        for bin in [&one, &two] {
            fs::create_dir_all(bin.join("bin")).unwrap();
        }
        fs::write(two.join("bin/python3.12"), "").unwrap();
        let link = one.join("bin/python3");
        std::os::unix::fs::symlink("../../two/bin/python3.12", &link).unwrap();
        let found = prefixes_of(&link);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], one);
        let second = fs::canonicalize(&found[1]).unwrap();
        assert_eq!(second, fs::canonicalize(&two).unwrap());
        assert!(prefixes_of(&one.join("bin/python")).is_empty());
    }

    #[test]
    fn two_files_of_one_release_are_refused_and_links_to_one_are_not() {
        let maps = |lines: &[&str]| parse_maps(&lines.join("\n"));
        let line = |inode: u64, path: &str| format!("7f00-7f01 r--p 00000000 08:01 {inode}                  {path}");
        let (one, same, other, older) = (
            line(7, "/venv/lib/libcublasLt.so.13"),
            line(7, "/links/libcublasLt.so"),
            line(8, "/toolkit/lib64/libcublasLt.so.13.1.0"),
            line(9, "/toolkit/lib64/libcublasLt.so.12.8"),
        );
        let refused = |lines: &[&str]| Library::CublasLt.refuse_copies(&maps(lines)).err();
        assert_eq!(refused(&[&one, &same, &one]), None);
        assert_eq!(refused(&[&one, &older, "7f00-7f01 rw-p 00000000 00:00 0"]), None);
        let sentence = refused(&[&one, &other]).unwrap();
        assert!(
            sentence.contains("/venv/lib") && sentence.contains("/toolkit"),
            "{sentence}"
        );
        assert_eq!(Library::Cudnn.refuse_copies(&maps(&[&one, &other])), Ok(()));
    }

    #[test]
    fn a_file_that_is_no_library_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libcudnn.so.9"), "no library").unwrap();
        assert!(!open_in(folder.path(), "libcudnn.so.9"));
        assert!(!open_in(folder.path(), "libcublasLt.so.13"));
    }
}
