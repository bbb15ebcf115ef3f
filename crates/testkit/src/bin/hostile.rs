//! `toolbooth-hostile MODE`: stdio servers of bad temper, and the processes that tests of supervision need.

#[path = "../hostile/mod.rs"]
mod hostile;

fn main() -> std::process::ExitCode {
    hostile::main()
}
