//! The `shapewise` program: parse, run, exit.

fn main() {}
