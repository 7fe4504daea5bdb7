//! Files that a command writes: never over one that it reads, over others with `--force` alone.

use crate::cli::note;
use crate::error::{Error, Result, is_same_file, write_atomically};
use crate::report::plot::{self, Chart};
use clap::{ArgMatches, Args, Command};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The options that name what is written.
const OUTPUTS: [&str; 5] = ["csv", "export", "loss_plot", "out", "plot"];

/// What names of values say of an option that names a file or a folder.
const PATHS: [&str; 4] = ["CONFIG", "DIR", "FILE", "PATH"];

/// Whether files may be replaced.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ReplaceArgs {
    /// Replace the files to write that exist.
    #[arg(long)]
    pub force: bool,
}

/// The files of a command line, each with the option that names it.
#[derive(Debug, Default)]
pub struct Files {
    written: Vec<(String, PathBuf)>,
    read: Vec<(String, PathBuf)>,
    /// Whether files may be replaced, or the command itself knows which.
    replace: bool,
}

impl Files {
    /// The files that the matches of this command name.
    pub fn of(command: &Command, matches: &ArgMatches) -> Self {
        if let Some((name, matches)) = matches.subcommand()
            && let Some(command) = command.find_subcommand(name)
        {
            return Self::of(command, matches);
        }
        let resumes = command.get_arguments().any(|arg| arg.get_id() == "resume");
        let forced = matches.try_get_one("force").ok().flatten() == Some(&true);
        let mut files = Self {
            replace: resumes || forced,
            ..Self::default()
        };
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            let named = arg.get_value_names().unwrap_or_default();
            let is_path = named.iter().any(|name| PATHS.iter().any(|word| name.contains(word)));
            let list = match OUTPUTS.contains(&id) {
                true => &mut files.written,
                false if is_path => &mut files.read,
                false => continue,
            };
            let option = arg.get_long().map_or_else(
                || named.first().map_or_else(String::new, ToString::to_string),
                |long| format!("--{long}"),
            );
            let values = matches.try_get_raw(id).ok().flatten();
            list.extend(values.into_iter().flatten().map(|path| (option.clone(), path.into())));
        }
        files
    }

    /// Refuses a file that is read or written twice, and one that would be replaced unasked.
    pub fn check(&self) -> Result<()> {
        for (at, (option, path)) in self.written.iter().enumerate() {
            let is_same = |(_, other): &&(String, PathBuf)| is_same_file(path, other);
            let twice =
                |(_, other): &&(String, PathBuf)| other == path && !is_special(path) || is_same_file(path, other);
            let clash = self.read.iter().find(is_same);
            if let Some((other, _)) = clash.or_else(|| self.written[..at].iter().find(twice)) {
                let allowed = format!("another file than that of {other}");
                return Err(Error::field("command line", option, path.display(), &allowed));
            }
        }
        let mut files = self.written.iter().filter(|_| !self.replace);
        files.try_for_each(|(option, path)| refuse_existing(option, path))
    }
}

/// Refuses to replace a file.
pub fn refuse_existing(option: &str, path: &Path) -> Result<()> {
    match path.is_file() && !is_special(path) {
        true => Err(Error::bad_input(format!(
            "{option}: {} exists already; allowed: a new file, or --force to replace it",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Whether this is the standard output or another stream, whatever file a shell has bound it to.
fn is_special(path: &Path) -> bool {
    path.starts_with("/dev") || path.starts_with("/proc")
}

/// Writes a file that was asked for beside the answer, and says so.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    match path.to_str() {
        // Opened anew it would begin at the start of a file that a shell has bound it to.
        Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => io::stdout()
            .write_all(content)
            .map_err(|source| Error::io(path, source))?,
        _ => write_atomically(path, content)?,
    }
    note(&format!("wrote {}", path.display()));
    Ok(())
}

/// Draws what a report shows, where a picture was asked for.
pub fn draw(chart: Option<Chart>, path: Option<&Path>) -> Result<()> {
    match chart.zip(path) {
        Some((chart, path)) => write(path, &plot::render(&chart, plot::Format::of(path)?)?),
        None => Ok(()),
    }
}

/// Writes files below the folder that an option names: all of them, or none if one exists and may not be replaced.
pub fn write_all(option: &str, files: &[(PathBuf, Vec<u8>)], replace: ReplaceArgs) -> Result<()> {
    if !replace.force {
        files.iter().try_for_each(|(path, _)| refuse_existing(option, path))?;
    }
    files
        .iter()
        .try_for_each(|(path, content)| write_atomically(path, content))
}

#[cfg(test)]
mod tests {
    use crate::cli::args::Cli;

    #[test]
    fn a_file_is_never_read_and_written_and_asks_before_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let [own, link, hard, new] = ["own.svg", "link.svg", "hard.svg", "new.svg"].map(path);
        std::fs::write(&own, "rows").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        std::fs::hard_link(&own, &hard).unwrap();
        let said = |line: String| {
            let words = line.split_whitespace().map(Into::into);
            let files = Cli::read(words).expect(&line).files;
            files.check().err().map(|error| error.to_string())
        };
        for (line, wanted) in [
            ("evaluate --runs OWN --csv OWN --force", "--runs"),
            ("evaluate --runs OWN --csv LINK --force", "--runs"),
            ("evaluate --runs NEW LINK --csv HARD --force", "--runs"),
            ("calibrate --runs OWN --out OWN --force", "--runs"),
            ("calibrate --runs NEW --framework OWN --out LINK --force", "--framework"),
            ("import native OWN --out OWN --force", "PATH"),
            ("measure --device cpu --plan OWN --out OWN --force", "--plan"),
            ("sweep model OWN --plot OWN --force", "CONFIG.json"),
            ("search --params 1B --plot NEW.svg --loss-plot NEW.svg", "--plot"),
            ("evaluate --runs NEW --csv OWN", "--force"),
            ("calibrate --runs NEW --out LINK", "--force"),
            ("import native NEW --out OWN", "--force"),
            ("sweep gemm -m 1:2 -n 1 -k 1 --plot OWN", "--force"),
        ] {
            let line = format!("shapewise {line}");
            let line = line.replace("OWN", &own).replace("LINK", &link);
            let line = line.replace("HARD", &hard).replace("NEW", &new);
            let sentence = said(line.clone()).expect(&line);
            assert!(sentence.contains(wanted), "{line}: {sentence}");
        }
        for line in [
            format!("shapewise evaluate --runs {new} --csv {own} --force"),
            format!("shapewise evaluate --runs {own} --csv {new}"),
            format!("shapewise evaluate --runs {own} --csv /dev/stdout"),
            format!("shapewise evaluate --runs {own} --csv /dev/null"),
            "shapewise search --params 1B --plot y.svg --loss-plot x.svg".to_owned(),
        ] {
            assert_eq!(said(line.clone()), None, "{line}");
        }
    }
}
