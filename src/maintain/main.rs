//! Tools of the maintainers: the findings of the co-design paper, the page on accuracy, the laws of the loss and searches on
//! unmeasured GPUs judged.

mod accuracy;

mod args;

mod findings;

mod losses;

mod report;

mod reproduce;

mod transfer;

use args::{Cli, Command};
use clap::Parser;
use shapewise::cli::finish;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let code = finish(cli.view, || {
        let text = match &cli.command {
            Command::Reproduce(args) => findings::run(args, cli.view),
            Command::Accuracy(args) => accuracy::run(args),
            Command::Losses(args) => losses::run(args, cli.view),
            Command::Transfer => transfer::run(),
        };
        text.map(Into::into)
    });
    code.into()
}
