//! `shapewise completions` and `shapewise manual`: what shells and `man` read, from the same definitions as `--help`.

use crate::cli::args::Cli;
use crate::cli::args::CompletionsArgs;
use crate::cli::args::ManualArgs;
use crate::cli::say;
use crate::error::Error;
use crate::error::Result;
use crate::error::write_atomically;
use clap::CommandFactory;

pub(super) fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    let mut command = Cli::command();
    clap_complete::generate(args.shell, &mut command, "shapewise", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

pub(super) fn pages(args: &ManualArgs) -> Result<String> {
    let mut root = Cli::command();
    root.build();
    let mut commands = vec![root];
    let mut pages = 0;
    while let Some(command) = commands.pop() {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(command.clone());
        let name = man.get_filename();
        let path = args.out.join(name);
        man.render(&mut page)
            .map_err(|source| Error::io(&path, source))?;
        write_atomically(&path, &page)?;
        pages += 1;
        let visible = command
            .get_subcommands()
            .filter(|part| part.get_name() != "help");
        commands.extend(visible.cloned());
    }
    say(&format!("wrote {pages} pages below {}", args.out.display()));
    Ok(String::new())
}
