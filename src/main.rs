//! The `shapewise` program: parse, run, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    shapewise::cli::run(std::env::args_os())
}
