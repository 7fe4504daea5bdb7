//! Tools of the maintainers: the findings of the co-design paper, the page on accuracy, and the laws of the loss judged.

mod accuracy;

mod args;

mod findings;

mod losses;

mod report;

mod reproduce;

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
        };
        text.map(Into::into)
    });
    code.into()
}
