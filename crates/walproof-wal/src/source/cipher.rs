//! Repositories that pgBackRest encrypts (`repo1-cipher-type=aes-256-cbc`), in the format of `openssl enc -aes-256-cbc
//! -md sha1`:
//!
//! ```text
//! "Salted__", salt (8 bytes), AES-256-CBC of the content, filled up as PKCS #7 has it
//! key and initial vector: of SHA-1(pass, salt), SHA-1(that, pass, salt), ... the first 48 bytes
//! ```
//!
//! `archive.info` and `backup.info` are encrypted with the pass of the repository. What lies in the archive (segments,
//! histories, labels) is encrypted with another pass, which stands in `archive.info`: `[cipher] cipher-pass="..."`. The
//! repository's pass is taken from where pgBackRest takes it: `PGBACKREST_REPO1_CIPHER_PASS` (or of `REPO2`, ...), else
//! `repo1-cipher-pass` in the file that `PGBACKREST_CONFIG` names, or in its usual places.

use std::env;
use std::fs;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use aes::cipher::{BlockDecryptMut, KeyIvInit};
use aes::{Aes256, Block};
use cbc::Decryptor;
use sha1::{Digest, Sha1};

use super::object::Place;

const MAGIC: [u8; 8] = *b"Salted__";
const HEADER_LENGTH: usize = 16;
const BLOCK_LENGTH: usize = 16;
const KEY_LENGTH: usize = 32;
/// Blocks that are decrypted at a time.
const BATCH: usize = 64 << 10;
/// `archive.info` has a line for each upgrade in a cluster's life.
const LONGEST_INFO: u64 = 16 << 20;
/// `archive.info` stands that many folders above a segment at most.
const MOST_FOLDERS: usize = 4;
const CONFIGURATIONS: [&str; 2] = ["/etc/pgbackrest/pgbackrest.conf", "/etc/pgbackrest.conf"];

/// Why an encrypted file stays closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// It does not lie in a repository of pgBackRest.
    NoRepository,
    /// No pass is known.
    NoPass,
    /// None of the known passes opens the repository's `archive.info` or `backup.info`.
    WrongPass,
    /// `archive.info` has no pass for what lies in the archive.
    NoKey,
}

impl Locked {
    /// In words that follow "it is encrypted, and".
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Locked::NoRepository => "no archive.info of pgBackRest is in the folders above it",
            Locked::NoPass => "no pass of the repository is known",
            Locked::WrongPass => "the repository's pass does not open it",
            Locked::NoKey => "archive.info has no pass for it",
        }
    }
}

/// Whether a file that begins so is encrypted.
pub(super) fn is_encrypted(first: &[u8]) -> bool {
    first.starts_with(&MAGIC)
}

/// The pass of a file, by its place in a repository.
pub(super) fn pass_of(place: &Place) -> Result<Vec<u8>, Locked> {
    let passes = repository_passes();
    match place {
        Place::File(path) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            pass_by(&absolute, &passes, |path| path.is_file().then(|| read_info(path).unwrap_or_default()))
        }
        Place::Object(object) => pass_by(place.path(), &passes, |path| {
            let found = object.store.small(path.to_str()?).ok()??;
            Some((*found).as_ref().to_vec())
        }),
    }
}

/// The same with what reads an `.info` file, if there is one.
fn pass_by(
    path: &Path,
    passes: &[Vec<u8>],
    read: impl Fn(&Path) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Locked> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if matches!(name, "archive.info" | "archive.info.copy" | "backup.info" | "backup.info.copy") {
        return opened(&read(path).unwrap_or_default(), passes).map(|(pass, _)| pass);
    }
    let folders = path.ancestors().skip(1).take(MOST_FOLDERS);
    let places =
        folders.flat_map(|folder| ["archive.info", "archive.info.copy"].map(|name| folder.join(name)));
    let mut why = Locked::NoRepository;
    for bytes in places.filter_map(|place| read(&place)) {
        match opened(&bytes, passes) {
            Ok((_, text)) => return archive_pass(&text).ok_or(Locked::NoKey),
            Err(locked) => why = locked,
        }
    }
    Err(why)
}

fn read_info(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LONGEST_INFO).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first pass that opens an `.info` file, and what stands in it.
fn opened(bytes: &[u8], passes: &[Vec<u8>]) -> Result<(Vec<u8>, String), Locked> {
    if passes.is_empty() {
        return Err(Locked::NoPass);
    }
    let opened = passes.iter().find_map(|pass| {
        let mut text = String::new();
        let mut plain = Decrypted::new(bytes, pass).ok()?;
        plain.read_to_string(&mut text).ok()?;
        // By chance, one wrong pass of 256 leaves an end that looks right.
        text.contains("[backrest]").then(|| (pass.clone(), text))
    });
    opened.ok_or(Locked::WrongPass)
}

/// `cipher-pass` of the section `[cipher]`, a string in JSON.
fn archive_pass(info: &str) -> Option<Vec<u8>> {
    let section = info.lines().map(str::trim).skip_while(|line| *line != "[cipher]").skip(1);
    let value = section
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.strip_prefix("cipher-pass=")?.trim().strip_prefix('"')?.strip_suffix('"'))?;
    let mut pass = String::new();
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        pass.push(match letter {
            '\\' => letters.next().filter(|escaped| matches!(escaped, '"' | '\\' | '/'))?,
            letter => letter,
        });
    }
    (!pass.is_empty()).then(|| pass.into_bytes())
}

fn repository_passes() -> Vec<Vec<u8>> {
    let is_pass = |name: &str| {
        let number = name.strip_prefix("PGBACKREST_REPO").and_then(|rest| rest.strip_suffix("_CIPHER_PASS"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut passes: Vec<(String, Vec<u8>)> = env::vars_os()
        .filter_map(|(name, pass)| Some((name.into_string().ok()?, pass.into_encoded_bytes())))
        .filter(|(name, pass)| is_pass(name) && !pass.is_empty())
        .collect();
    passes.sort();
    if passes.is_empty() {
        let named = env::var_os("PGBACKREST_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let places = named.map_or_else(|| CONFIGURATIONS.map(PathBuf::from).to_vec(), |path| vec![path]);
        let text = places.iter().find_map(|place| fs::read_to_string(place).ok()).unwrap_or_default();
        return configured_passes(&text);
    }
    passes.into_iter().map(|(_, pass)| pass).collect()
}

/// `repo1-cipher-pass=...` in a configuration, of any section.
fn configured_passes(text: &str) -> Vec<Vec<u8>> {
    let passes = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let number = key.trim().strip_prefix("repo")?.strip_suffix("-cipher-pass")?;
        let is_pass = number.bytes().all(|byte| byte.is_ascii_digit()) && !value.trim().is_empty();
        is_pass.then(|| value.trim().as_bytes().to_vec())
    });
    passes.collect()
}

/// `EVP_BytesToKey` of OpenSSL with SHA-1 and one round.
fn key_and_vector(pass: &[u8], salt: &[u8]) -> [u8; KEY_LENGTH + BLOCK_LENGTH] {
    let mut all = [0; KEY_LENGTH + BLOCK_LENGTH];
    let mut digest: Vec<u8> = Vec::new();
    for piece in all.chunks_mut(20) {
        digest = Sha1::new().chain_update(&digest).chain_update(pass).chain_update(salt).finalize().to_vec();
        piece.iter_mut().zip(&digest).for_each(|(to, from)| *to = *from);
    }
    all
}

/// The content of an encrypted file, as it is read.
pub(super) struct Decrypted<R> {
    input: R,
    cipher: Decryptor<Aes256>,
    /// Bytes read and not decrypted; the last block is not, before the end is seen.
    raw: Vec<u8>,
    plain: Vec<u8>,
    /// Bytes of `plain` that were given out.
    given: usize,
    is_at_end: bool,
    failure: Option<(io::ErrorKind, &'static str)>,
}

impl<R: BufRead> Decrypted<R> {
    /// `input` stands at the file's beginning.
    pub(super) fn new(mut input: R, pass: &[u8]) -> io::Result<Decrypted<R>> {
        let mut header = [0; HEADER_LENGTH];
        input.read_exact(&mut header)?;
        let (magic, salt) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not encrypted"));
        }
        let derived = key_and_vector(pass, salt);
        let (key, vector) = derived.split_at(KEY_LENGTH);
        let cipher = Decryptor::new_from_slices(key, vector)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        Ok(Decrypted {
            input,
            cipher,
            raw: Vec::new(),
            plain: Vec::new(),
            given: 0,
            is_at_end: false,
            failure: None,
        })
    }

    /// Decrypts some more; at the end, what was filled up is taken away.
    fn refill(&mut self) -> io::Result<()> {
        while self.raw.len() <= BLOCK_LENGTH && !self.is_at_end {
            let wanted = (BATCH - self.raw.len()) as u64;
            self.is_at_end = (&mut self.input).take(wanted).read_to_end(&mut self.raw)? == 0;
        }
        let whole = self.raw.len() / BLOCK_LENGTH;
        let count = if self.is_at_end { whole } else { (self.raw.len() - 1) / BLOCK_LENGTH };
        let mut blocks: Vec<Block> =
            self.raw.chunks_exact(BLOCK_LENGTH).take(count).map(Block::clone_from_slice).collect();
        self.cipher.decrypt_blocks_mut(&mut blocks);
        self.raw.drain(..count * BLOCK_LENGTH);
        self.given = 0;
        self.plain.clear();
        blocks.iter().for_each(|block| self.plain.extend_from_slice(block));
        if self.is_at_end {
            self.failure = if !self.raw.is_empty() || self.plain.is_empty() {
                Some((io::ErrorKind::UnexpectedEof, "what is encrypted ends too early"))
            } else {
                self.strip_filling()
            };
        }
        Ok(())
    }

    fn strip_filling(&mut self) -> Option<(io::ErrorKind, &'static str)> {
        let count = usize::from(self.plain.last().copied().unwrap_or_default());
        let rest = self.plain.len().checked_sub(count).filter(|_| (1..=BLOCK_LENGTH).contains(&count));
        let filling = rest.and_then(|rest| self.plain.get(rest..)).unwrap_or_default();
        if filling.is_empty() || filling.iter().any(|byte| usize::from(*byte) != count) {
            self.plain.clear();
            return Some((io::ErrorKind::InvalidData, "what is encrypted has no end that this pass opens"));
        }
        self.plain.truncate(rest.unwrap_or_default());
        None
    }
}

impl<R: BufRead> Read for Decrypted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.plain.len() && self.failure.is_none() {
            if self.is_at_end {
                return Ok(0);
            }
            self.refill()?;
        }
        let rest = self.plain.get(self.given..).unwrap_or_default();
        match self.failure {
            Some((kind, said)) if rest.is_empty() => Err(io::Error::new(kind, said)),
            _ => {
                let count = rest.len().min(buffer.len());
                buffer.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                self.given += count;
                Ok(count)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// `printf 'PostgreSQL writes its log ahead.' | openssl enc -aes-256-cbc -md sha1 -k secret -S 0102030405060708`,
    /// with the header that other versions of openssl write when the salt is given.
    const CONTENT: &[u8] = b"PostgreSQL writes its log ahead.";
    const ENCRYPTED: &str =
        "303f79d586608f900554c671b2054bf5f30126d258fde1dfaf574f8b1cfc1d0e7cfd0ad14ed8d3bf274b311f27e8dff5";

    fn encrypted() -> Vec<u8> {
        let bytes = |digits: &str| -> Vec<u8> {
            (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect()
        };
        [&MAGIC[..], &[1, 2, 3, 4, 5, 6, 7, 8], &bytes(ENCRYPTED)].concat()
    }

    fn decrypt(bytes: &[u8], pass: &str) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Decrypted::new(bytes, pass.as_bytes())?.read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn what_openssl_encrypted() {
        assert_eq!(decrypt(&encrypted(), "secret").unwrap(), CONTENT);
        let wrong = decrypt(&encrypted(), "Secret");
        assert!(wrong.is_err() || wrong.unwrap() != CONTENT);
        for length in 0..encrypted().len() {
            assert!(decrypt(&encrypted()[..length], "secret").is_err(), "{length} bytes");
        }
    }

    #[test]
    fn passes_in_a_configuration() {
        let text = "[global]\nrepo1-cipher-pass = a=b \n#repo2-cipher-pass=no\nrepo1-cipher-type=aes-256-cbc\nrepo3-cipher-pass=\n[x]\nrepo2-cipher-pass=two\n";
        assert_eq!(configured_passes(text), [b"a=b".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn the_archives_own_pass() {
        let info = "[backrest]\nbackrest-format=5\n\n[cipher]\ncipher-pass=\"a\\/b\\\"c+=\"\n\n[db]\ncipher-pass=\"x\"\n";
        assert_eq!(archive_pass(info).unwrap(), b"a/b\"c+=");
        for none in ["", "[cipher]\n[db]\ncipher-pass=\"x\"\n", "[cipher]\ncipher-pass=\"a\\u0041\"\n"] {
            assert_eq!(archive_pass(none), None, "{none}");
        }
    }
}
