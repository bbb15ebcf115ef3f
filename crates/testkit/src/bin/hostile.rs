//! `toolbooth-hostile MODE`: misbehaving stdio servers, and processes for tests of supervision.

#[path = "../hostile/mod.rs"]
mod hostile;

fn main() -> std::process::ExitCode {
    hostile::main()
}
