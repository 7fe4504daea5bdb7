//! The one error type of the library: what was wrong, where, and what would be allowed.
//!
//! A message is one sentence that a user can act on. Callers branch on predicates, never on text.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with one clear sentence and, where there is one, its cause.
#[derive(Debug)]
pub struct Error(Box<Kind>);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("{0}")]
    BadInput(String),
    #[error("{place}: `{}` is {}; allowed: {}", .at.field, .at.value, .at.allowed)]
    Field { place: String, at: FieldError },
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Infeasible(String),
    #[error("{what} needs the feature `{feature}`, which this build leaves out; build with `--features {feature}`")]
    FeatureOff { what: String, feature: String },
}

/// A field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Its name.
    pub field: String,
    /// What it holds.
    pub value: String,
    /// What it may hold.
    pub allowed: String,
}

impl Error {
    /// A file or folder that could not be read or written.
    pub fn io(path: impl AsRef<Path>, source: io::Error) -> Self {
        Self(Box::new(Kind::Io {
            path: path.as_ref().display().to_string(),
            source,
        }))
    }

    /// Input that breaks a rule; the sentence names the file, the field, its value and what is allowed.
    pub fn bad_input(sentence: impl Into<String>) -> Self {
        Self(Box::new(Kind::BadInput(limited(&sentence.into(), SENTENCE))))
    }

    /// A request that is wrong in no single field.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self(Box::new(Kind::Usage(sentence.into())))
    }

    /// The usual [`Error::bad_input`]: `place: field is value; allowed: allowed`.
    pub fn field(place: impl fmt::Display, field: &str, value: impl fmt::Display, allowed: &str) -> Self {
        Self(Box::new(Kind::Field {
            place: place.to_string(),
            at: FieldError {
                field: shortened(field),
                value: shortened(&value.to_string()),
                allowed: allowed.to_owned(),
            },
        }))
    }

    /// A well-formed request that no answer can meet.
    pub fn infeasible(sentence: impl Into<String>) -> Self {
        Self(Box::new(Kind::Infeasible(sentence.into())))
    }

    /// A command whose optional part was not compiled in.
    pub fn feature_off(what: impl Into<String>, feature: impl Into<String>) -> Self {
        let (what, feature) = (what.into(), feature.into());
        Self(Box::new(Kind::FeatureOff { what, feature }))
    }

    /// Whether the file system refused.
    pub fn is_io(&self) -> bool {
        matches!(*self.0, Kind::Io { .. })
    }

    /// Whether the input broke a rule.
    pub fn is_bad_input(&self) -> bool {
        matches!(*self.0, Kind::BadInput(_) | Kind::Field { .. } | Kind::Usage(_))
    }

    /// Whether a request itself is wrong: an option, a key or a name, nothing that was read from a file.
    pub fn is_usage(&self) -> bool {
        match &*self.0 {
            Kind::Field { place, .. } => REQUESTS.contains(&&**place) || place.starts_with("architecture "),
            Kind::Usage(_) => true,
            _ => false,
        }
    }

    /// The field that broke a rule, where it was one field.
    pub fn field_error(&self) -> Option<&FieldError> {
        match &*self.0 {
            Kind::Field { at, .. } => Some(at),
            _ => None,
        }
    }

    /// The file, the key or the part of a request that the sentence is about and begins with.
    pub fn place(&self) -> Option<&str> {
        match &*self.0 {
            Kind::Field { place, .. } => Some(place),
            Kind::BadInput(sentence) => sentence.split_once(": ").map(|(place, _)| place),
            _ => None,
        }
    }

    /// Whether the request was well formed but cannot be met.
    pub fn is_infeasible(&self) -> bool {
        matches!(*self.0, Kind::Infeasible(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names out of files may hold anything; a message is one line of it.
        f.write_str(&limited(&self.0.to_string(), usize::MAX))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Kind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The places that are parts of a request; all others are files.
const REQUESTS: [&str; 15] = [
    "attention",
    "command line",
    "compare",
    "decode",
    "gpu",
    "graph",
    "plan",
    "question",
    "request",
    "run",
    "search",
    "serve",
    "sweep",
    "target",
    "workload",
];

/// The longest text of others that a message repeats, in characters.
const SHOWN: usize = 80;

/// The longest sentence about a file, in characters.
const SENTENCE: usize = 2000;

/// A text of others as messages repeat it: one line of it, short, its control characters escaped.
pub fn shortened(text: &str) -> String {
    limited(text, SHOWN)
}

fn limited(text: &str, most: usize) -> String {
    let end = text.char_indices().nth(most).map(|(end, _)| end);
    let mut shown = String::with_capacity(text.len().min(most));
    for c in text[..end.unwrap_or(text.len())].chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    if end.is_some() {
        shown.push('…');
    }
    shown
}

/// Reads a whole text file; the error names it.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = read_bytes(path, MOST_TEXT)?;
    String::from_utf8(bytes).map_err(|error| {
        let source = io::Error::new(io::ErrorKind::InvalidData, error.utf8_error());
        Error::io(path, source)
    })
}

/// The most bytes of a text file: configs, cards, constants and plans have some thousands.
const MOST_TEXT: u64 = 64 << 20;

/// Reads the first bytes of a file, at most so many; the error names it.
pub fn read_start(path: &Path, most: u64) -> Result<Vec<u8>> {
    let fail = |source| Error::io(path, source);
    require_regular(path)?;
    let file = std::fs::File::open(path).map_err(fail)?;
    let mut bytes = Vec::new();
    let mut limited = io::Read::take(file, most);
    io::Read::read_to_end(&mut limited, &mut bytes).map_err(fail)?;
    Ok(bytes)
}

/// Reads a whole file of at most so many bytes; the error names it.
pub fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>> {
    let bytes = read_start(path, most + 1)?;
    if bytes.len() as u64 > most {
        return Err(Error::bad_input(format!(
            "{}: the file has more than {most} bytes; allowed: at most as many",
            path.display()
        )));
    }
    Ok(bytes)
}

/// Refuses what is no file, but for what a shell hands over as one: pipes wait for a writer, devices never end.
pub fn require_regular(path: &Path) -> Result<()> {
    let handed_over = ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"];
    let is_handed_over = handed_over
        .iter()
        .any(|start| path.to_str().is_some_and(|path| path.starts_with(start)));
    let about = std::fs::metadata(path).map_err(|source| Error::io(path, source))?;
    if about.is_file() || is_handed_over {
        return Ok(());
    }
    let what = if about.is_dir() {
        "a folder"
    } else {
        "a pipe or a device"
    };
    Err(Error::bad_input(format!(
        "{}: this is {what}; allowed: a file",
        path.display()
    )))
}

thread_local! {
    static PANICS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a step of a library that answers damaged input with a panic; `None` if it did.
///
/// Whatever the step has left half done is dropped with the error.
pub fn caught<T>(step: impl FnOnce() -> T) -> Option<T> {
    let before = PANICS_EXPECTED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(step));
    PANICS_EXPECTED.set(before);
    outcome.ok()
}

/// Whether this thread runs inside [`caught`], where a panic means bad input, not a bug.
pub fn panics_are_expected() -> bool {
    PANICS_EXPECTED.get()
}

/// Whether both are names of one file or folder, also through links.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    let identity = |path| {
        use std::os::unix::fs::MetadataExt;
        let about: std::fs::Metadata = std::fs::metadata(path).ok()?;
        (about.is_file() || about.is_dir()).then(|| (about.dev(), about.ino()))
    };
    #[cfg(not(unix))]
    let identity = |path| std::fs::canonicalize(path).ok();
    identity(one).is_some_and(|known| identity(other) == Some(known))
}

/// Writes a file so that a crash leaves either the old content or the new, never half of it.
///
/// A link stays one, and its target is written; streams, pipes and devices take the content as it comes.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let is_stream = |about: std::fs::Metadata| !about.is_file() && !about.is_dir();
    // What a shell has bound to a file is still a stream.
    let is_bound = ["/dev", "/proc"].iter().any(|root| path.starts_with(root));
    if is_bound || std::fs::metadata(path).is_ok_and(is_stream) {
        let file = std::fs::File::options().append(true).open(path);
        let written = file.and_then(|mut file| io::Write::write_all(&mut file, content));
        return written.map_err(|source| Error::io(path, source));
    }
    replace(&destination(path), content)
}

/// What links lead to, at most as many of them as systems follow.
fn destination(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..40 {
        let Ok(target) = std::fs::read_link(&path) else {
            break;
        };
        path = path.with_file_name(target);
    }
    path
}

fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let fail = |source| Error::io(path, source);
    std::fs::create_dir_all(parent).map_err(fail)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    remove_partials(parent, &name);
    let partial = parent.join(format!(".{name}.{}.partial", std::process::id()));
    let written = (|| {
        let mut file = std::fs::File::create(&partial)?;
        io::Write::write_all(&mut file, content)?;
        file.sync_all()?;
        std::fs::rename(&partial, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written.map_err(fail)
}

/// Removes what killed writers of this file have left, if the system shows that they have ended.
fn remove_partials(folder: &Path, name: &str) {
    let processes = Path::new("/proc");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|_| processes.join("self").exists()) {
        let found = entry.file_name();
        let writer = found.to_str().and_then(|found| {
            let rest = found.strip_prefix('.')?.strip_prefix(name)?;
            rest.strip_prefix('.')?.strip_suffix(".partial")
        });
        let is_id = |id: &&str| id.parse::<u32>().is_ok();
        if let Some(id) = writer.filter(is_id)
            && !processes.join(id).exists()
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_place_field_value_and_what_is_allowed() {
        let error = Error::field("gpu.toml", "sm_clock_hz", 1980, "1e8 to 5e9");
        assert_eq!(
            error.to_string(),
            "gpu.toml: `sm_clock_hz` is 1980; allowed: 1e8 to 5e9"
        );
        assert!(error.is_bad_input() && !error.is_io());
        assert!(
            Error::feature_off("`train`", "train")
                .to_string()
                .contains("--features train")
        );
    }

    #[test]
    fn pipes_devices_and_endless_files_are_no_files() {
        for special in ["/dev/zero", "/dev/full", "/dev/urandom", "/dev"] {
            let refused = read_text(Path::new(special)).unwrap_err();
            assert!(refused.is_bad_input(), "{refused}");
        }
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("config.json");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        let refused = read_text(&link).unwrap_err().to_string();
        assert!(refused.contains("allowed: a file"), "{refused}");
        let large = folder.path().join("large.json");
        let file = std::fs::File::create(&large).unwrap();
        file.set_len(MOST_TEXT + 1).unwrap();
        let refused = read_text(&large).unwrap_err().to_string();
        assert!(refused.contains("more than 67108864 bytes"), "{refused}");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_and_pipes_written_to() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let links = [("link", "real"), ("to_link", "link"), ("dangling", "deep/new")];
        for (link, target) in links {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
        }
        std::fs::write(path("real"), "old").unwrap();
        for (link, target) in [("to_link", "real"), ("dangling", "deep/new")] {
            write_atomically(&path(link), b"new").unwrap();
            assert!(std::fs::read_link(path(link)).is_ok());
            assert_eq!(read_text(&path(target)).unwrap(), "new");
        }
        let fifo = path("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || std::fs::read(fifo).unwrap()
        });
        write_atomically(&fifo, b"rows").unwrap();
        assert_eq!(reader.join().unwrap(), b"rows");
        write_atomically(Path::new("/dev/null"), b"rows").unwrap();
        let full = write_atomically(Path::new("/dev/full"), b"rows");
        assert!(full.is_err_and(|error| error.is_io()));
        for device in ["/dev/null", "/dev/full"] {
            assert!(std::fs::metadata(device).unwrap().file_type().is_char_device());
        }
    }

    #[test]
    fn what_killed_writers_left_goes_with_the_next_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.bin");
        let left = folder.path().join(".weights.bin.4194999.partial");
        let other = folder.path().join(".weights.bin.mine.partial");
        for file in [&left, &other] {
            std::fs::write(file, "half").unwrap();
        }
        write_atomically(&path, b"whole").unwrap();
        assert!(!left.exists() && other.exists() && path.exists());
    }

    #[test]
    fn an_expected_panic_is_told_apart_from_a_bug() {
        let seen = caught(|| -> bool { panics_are_expected() });
        assert_eq!(seen, Some(true));
        assert_eq!(caught(|| panic!("on purpose")), None::<()>);
        assert!(!panics_are_expected());
    }

    #[test]
    fn a_message_is_one_short_line_whatever_a_file_holds() {
        let odd = format!("a\nerror: \u{1b}[2J{}", "x".repeat(1_000_000));
        let text = Error::field("config.json", &odd, &odd, "names").to_string();
        assert!(text.chars().count() < 300, "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
        for error in [
            Error::field("table", "gpu", "x", "one of \u{1b}[31m, b\n"),
            Error::infeasible("h100 \0 has 1 rows"),
            Error::usage("--dim \u{1a}okens=SIZE"),
            Error::io("a\nb", io::ErrorKind::NotFound.into()),
        ] {
            let text = error.to_string();
            assert!(!text.contains(char::is_control), "{text:?}");
        }
        assert_eq!(shortened("größer als 1"), "größer als 1");
    }

    #[test]
    fn an_atomic_write_replaces_the_file_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/card.json");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(read_text(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(read_text(&folder.path().join("absent")).unwrap_err().is_io());
    }
}
