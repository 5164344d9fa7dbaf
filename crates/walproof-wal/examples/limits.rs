//! What the machine allows: CPU time of reading files, and of reading and checksumming them, without decoding.
//! `cargo run --release --example limits -- DIRECTORY` prints one line each: name, bytes, seconds of CPU.

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::PathBuf;

/// As many bytes at a time as the decoder reads.
const BUFFER: usize = 256 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: limits DIRECTORY")?;
    let mut files = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<PathBuf>, _>>()?;
    files.sort();
    let mut buffer = vec![0; BUFFER];
    // The first pass only brings the files into memory.
    for (name, is_checksummed) in [("", false), ("read", false), ("checksum", true)] {
        let before = cpu_s()?;
        let mut bytes = 0;
        for path in &files {
            let mut file = File::open(path)?;
            loop {
                let count = file.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                bytes += count;
                let got = buffer.get(..count).unwrap_or_default();
                if is_checksummed {
                    black_box(walproof_wal::checksum(got));
                } else {
                    black_box(got);
                }
            }
        }
        if !name.is_empty() {
            println!("{name} {bytes} {}", cpu_s()? - before);
        }
    }
    Ok(())
}

/// CPU time of this process so far (`/proc/self/schedstat`, in nanoseconds).
fn cpu_s() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/schedstat")?;
    let ns: u64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(ns as f64 / 1e9)
}
