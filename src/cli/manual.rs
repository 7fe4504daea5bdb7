//! `shapewise completions` and `shapewise manual`: what shells and `man` read, from the same definitions as `--help`.

use crate::cli::args::{Cli, CompletionsArgs, ManualArgs};
use crate::cli::output::write_all;
use crate::cli::{help, note};
use crate::error::{Error, Result};

pub(super) fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    let mut command = help::completed(Cli::arranged());
    clap_complete::generate(args.shell, &mut command, "shapewise", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

pub(super) fn pages(args: &ManualArgs) -> Result<String> {
    let mut root = Cli::arranged();
    root.build();
    let folder = &args.out;
    let mut commands = vec![root];
    let mut pages = Vec::new();
    while let Some(command) = commands.pop() {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(command.clone());
        let name = man.get_filename();
        let path = folder.join(name);
        man.render(&mut page).map_err(|source| Error::io(&path, source))?;
        pages.push((path, page));
        let visible = command.get_subcommands().filter(|part| part.get_name() != "help");
        commands.extend(visible.cloned());
    }
    write_all("--out", &pages, args.replace)?;
    let (pages, folder) = (pages.len(), folder.display());
    note(&format!("wrote {pages} pages below {folder}"));
    Ok(String::new())
}
