//! What the recording teaches about records: what a reference carries with and without an image, how large a
//! relation's images are, and how well they compress.
//!
//! Learned from the beginning of the recording before the simulation, and on along the way.

use rustc_hash::FxHashMap;
use walproof_wal::{
    named_fields, BlockRef, ByMethod, Compression, ForkNumber, Forks, Image, Record, RmgrId, BLOCK_SIZE,
};

use crate::drawn::Drawn;
use crate::growth::Tuples;
use crate::images::{Compressor, Lengths, MethodSample};
use crate::samples::ForkSample;
use crate::target::ImageCompression;

const XLOG_FPI_FOR_HINT: u8 = 0xA0;
const XLOG_FPI: u8 = 0xB0;
const ANY_FORK: ForkNumber = ForkNumber::MAX;
/// A page that was touched so few bytes before was very likely logged since the last checkpoint.
const SMALL_GAP_BYTES: i64 = 256 << 10;
/// Images that have to be found at such gaps, and none missing, for a class to be one that forces them.
const FORCED_LEAST: u32 = 3;
/// Images that are held of those that were compressed to see what each method makes of them, at most.
pub(crate) const SAMPLE: usize = 1024;
/// Relative standard error of a relation's images if none was compressed, so that others stand in.
const UNSEEN_ERROR: f64 = 0.5;
/// Images of a relation from which a mean size is taken.
const IMAGES_LEAST: u64 = 8;
/// What the number of a fork takes, roughly.
const FORK_BYTES: usize = 32;
/// Bytes of an image about which nothing else is known.
const UNKNOWN_SIZE: u32 = 7000;

/// A kind of reference: of one relation's fork, of one operation, in one place of the record.
type ClassKey = u64;

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// References without image, and the bytes of their data.
    bare: u32,
    bare_data_bytes: u64,
    /// References with an image, and those of them with data as well.
    imaged: u32,
    imaged_with_data: u32,
    /// Of those with an image, those whose page had been touched shortly before.
    imaged_at_small_gap: u32,
}

/// Images of a relation's fork.
#[derive(Clone, Debug, Default)]
struct Sizes {
    count: u64,
    plain_bytes: u64,
    /// Pages whose size was followed from record to record, at each record.
    followed: u64,
    followed_bytes: u64,
    /// Tuples that were added to tables, with their line pointers.
    tuples: u64,
    tuple_bytes: u64,
    /// Line pointers of a table's imaged pages, and the bytes of their tuples.
    pointers: u64,
    pointed_bytes: u64,
    /// Images that were compressed to see, here and by who told of them.
    drawn: Drawn,
    sampled: u64,
    sampled_plain_bytes: u64,
    sampled_bytes: [u64; 3],
    /// Of those that were told of: squares of the standard errors of `sampled_bytes`.
    told_squares: [f64; 3],
    /// Images that were stored compressed, by method: their bytes without compression, and as stored.
    stored: [(u64, u64); 3],
    /// Of `pointers` and `pointed_bytes`, those of images that were stored compressed.
    unpacked_pointers: u64,
    unpacked_bytes: u64,
}

impl Sizes {
    fn mean(&self) -> Option<u32> {
        (self.count >= IMAGES_LEAST).then(|| (self.plain_bytes / self.count) as u32)
    }

    fn followed_mean(&self) -> Option<u32> {
        (self.followed > 0).then(|| (self.followed_bytes / self.followed) as u32)
    }

    /// Standard error of what the images take under each method, as a share.
    fn errors(&self) -> [f64; 3] {
        let (_, drawn) = self.drawn.sums();
        let mut errors = self.drawn.errors();
        for (((error, told), drawn_bytes), all) in
            errors.iter_mut().zip(self.told_squares).zip(drawn).zip(self.sampled_bytes)
        {
            *error = (told + (*error * drawn_bytes as f64).powi(2)).sqrt() / (all as f64).max(1.0);
        }
        errors
    }

    /// Adds, or takes away, what images take.
    fn count_sampled(&mut self, count: i64, plain: i64, bytes: [i64; 3]) {
        self.sampled = self.sampled.saturating_add_signed(count);
        self.sampled_plain_bytes = self.sampled_plain_bytes.saturating_add_signed(plain);
        for (sum, more) in self.sampled_bytes.iter_mut().zip(bytes) {
            *sum = sum.saturating_add_signed(more);
        }
    }
}

named_fields! {
    /// Images that were compressed to see what each method makes of them.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct ImageSample {
        /// Images.
        pub count: u64,
        /// Their bytes without compression.
        pub plain_bytes: u64,
        /// What each method made of them.
        pub methods: ByMethod<MethodSample>,
    }
}

/// All that was learned.
pub(crate) struct Knowledge<'a> {
    pub(crate) forks: Forks,
    classes: FxHashMap<ClassKey, Class>,
    sizes: Vec<Sizes>,
    all: Sizes,
    compressor: Compressor<'a>,
    /// Images held in all `drawn`.
    held: usize,
    /// Whether setting a hint bit writes WAL: checksums or `wal_log_hints`.
    pub(crate) has_hint_records: bool,
    /// How the recording's last image was compressed.
    method: Option<Compression>,
    /// What others saw of images, where the records here have no contents.
    looks: Option<Looks>,
}

/// What each method makes of an image, and the tuples that unpacking showed; None for an image that does not tell.
pub(crate) type Look = Option<(Lengths, Option<(u64, u64)>)>;

/// Images by their records and the numbers of their references.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    pub(crate) found: FxHashMap<(u64, u8), Look>,
    /// Whether one was asked for that nobody had looked at.
    pub(crate) is_lacking: bool,
}

impl<'a> Knowledge<'a> {
    pub(crate) fn new(clock: &'a (dyn Fn() -> u64 + Sync)) -> Knowledge<'a> {
        Knowledge {
            forks: Forks::default(),
            classes: FxHashMap::default(),
            sizes: Vec::new(),
            all: Sizes::default(),
            compressor: Compressor::new(clock),
            held: 0,
            has_hint_records: false,
            method: None,
            looks: None,
        }
    }

    /// Knowledge from records without contents, of whose images others tell.
    pub(crate) fn of_looks(clock: &'a (dyn Fn() -> u64 + Sync)) -> Knowledge<'a> {
        Knowledge { looks: Some(Looks::default()), ..Knowledge::new(clock) }
    }

    /// What others saw.
    pub(crate) fn looks(&mut self) -> &mut Looks {
        self.looks.get_or_insert_default()
    }

    /// Adds what compressing took elsewhere.
    pub(crate) fn add_nanoseconds(&mut self, elsewhere: [u64; 3]) {
        self.compressor.add_nanoseconds(elsewhere);
    }

    /// Forks of relations that were met.
    pub(crate) fn forks_count(&self) -> usize {
        self.forks.len()
    }

    /// Bytes that it takes, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let classes = self.classes.capacity() * size_of::<(ClassKey, Class)>();
        let sizes = self.sizes.capacity() * size_of::<Sizes>();
        let forks = self.forks.len() * FORK_BYTES;
        (classes + sizes + forks + self.held * size_of::<Lengths>()) as u64
    }

    /// Learns what was told of images before they were blanked out, and how many nanoseconds each method took.
    pub(crate) fn recall(&mut self, samples: &[ForkSample], nanoseconds: [u64; 3]) {
        for sample in samples {
            let fork = self.forks.number(sample.relation, sample.fork);
            self.make_room(fork);
            for sizes in self.sizes.get_mut(fork as usize).into_iter().chain([&mut self.all]) {
                sizes.sampled += sample.count;
                sizes.sampled_plain_bytes += sample.plain_bytes;
                for (sum, bytes) in sizes.sampled_bytes.iter_mut().zip(sample.bytes) {
                    *sum += bytes;
                }
                for (sum, (error, bytes)) in
                    sizes.told_squares.iter_mut().zip(sample.errors.into_iter().zip(sample.bytes))
                {
                    *sum += (error * bytes as f64).powi(2);
                }
                sizes.pointers += sample.pointers;
                sizes.pointed_bytes += sample.pointed_bytes;
            }
        }
        self.compressor.add_nanoseconds(nanoseconds);
    }

    /// What the sampled images of a fork told; None where there is none.
    pub(crate) fn fork_sample(&self, fork: ForkNumber) -> Option<ForkSample> {
        let sizes = self.sizes.get(fork as usize).filter(|sizes| sizes.sampled > 0)?;
        Some(ForkSample {
            count: sizes.sampled,
            plain_bytes: sizes.sampled_plain_bytes,
            bytes: sizes.sampled_bytes,
            errors: sizes.errors(),
            pointers: sizes.unpacked_pointers,
            pointed_bytes: sizes.unpacked_bytes,
            ..ForkSample::default()
        })
    }

    /// Nanoseconds that each method took.
    pub(crate) fn nanoseconds(&self) -> [u64; 3] {
        self.compressor.nanoseconds()
    }

    /// Learns from a reference whose page was last touched `gap` bytes before; None when it was not.
    pub(crate) fn learn(
        &mut self,
        record: &Record<'_>,
        block: &BlockRef,
        fork: ForkNumber,
        gap: Option<i64>,
    ) {
        if is_hint(record) {
            self.has_hint_records = true;
        } else if !block.will_init {
            let is_small = gap.is_some_and(|gap| gap < SMALL_GAP_BYTES);
            for of_fork in [fork, ANY_FORK] {
                let class = self.classes.entry(key(record, block, of_fork)).or_default();
                if has_image(block) {
                    class.imaged += 1;
                    class.imaged_with_data += u32::from(block.data_length > 0);
                    class.imaged_at_small_gap += u32::from(is_small);
                } else {
                    class.bare += 1;
                    class.bare_data_bytes += u64::from(block.data_length);
                }
            }
            if record.only_marks_visible(block) && has_image(block) {
                self.has_hint_records = true;
            }
        }
        self.learn_image(record, block, fork);
    }

    /// Learns from an image, if there is one.
    pub(crate) fn learn_image(&mut self, record: &Record<'_>, block: &BlockRef, fork: ForkNumber) {
        let Some(image) = block.image.filter(|image| image.apply) else { return };
        self.method = image.compression;
        let at = fork as usize;
        if self.sizes.len() <= at {
            self.sizes.resize(at + 1, Sizes::default());
        }
        let Some(of_fork) = self.sizes.get_mut(at) else { return };
        let plain = u64::from(image.uncompressed_length());
        for sizes in [&mut *of_fork, &mut self.all] {
            sizes.count += 1;
            sizes.plain_bytes += plain;
            if let Some((whole, stored)) = image.compression.and_then(|way| sizes.stored.get_mut(place(way)))
            {
                *whole += plain;
                *stored += u64::from(image.length);
            }
        }
        if image.compression.is_none() {
            if let Some((count, bytes)) = tuples_on(record.image(block)) {
                of_fork.pointers += count;
                of_fork.pointed_bytes += bytes;
            }
        }
        if !of_fork.drawn.wants() {
            return;
        }
        let look = match &mut self.looks {
            None => look_at(&mut self.compressor, &image, record.image(block)),
            Some(looks) => match looks.found.get(&(record.lsn.0, block.id)) {
                Some(look) => *look,
                None => {
                    looks.is_lacking = true;
                    None
                }
            },
        };
        let Some((lengths, unpacked)) = look else { return };
        if let Some((count, bytes)) = unpacked {
            of_fork.pointers += count;
            of_fork.pointed_bytes += bytes;
            of_fork.unpacked_pointers += count;
            of_fork.unpacked_bytes += bytes;
        }
        let Lengths { plain, compressed } = lengths;
        of_fork.drawn.add(lengths);
        for sizes in [of_fork, &mut self.all] {
            sizes.count_sampled(1, i64::from(plain), compressed.map(i64::from));
        }
        self.held += 1;
        if self.held > SAMPLE {
            self.thin();
        }
    }

    /// The fork with the most images held lets every second one go.
    fn thin(&mut self) {
        let Some(largest) = self.sizes.iter_mut().max_by_key(|sizes| sizes.drawn.len()) else { return };
        let (count, (plain, bytes)) = (largest.drawn.len(), largest.drawn.sums());
        largest.drawn.thin();
        let (left, (plain_left, bytes_left)) = (largest.drawn.len(), largest.drawn.sums());
        self.held -= count - left;
        let mut less = bytes_left.map(|bytes| bytes as i64);
        for (less, before) in less.iter_mut().zip(bytes) {
            *less -= before as i64;
        }
        for sizes in [largest, &mut self.all] {
            sizes.count_sampled(left as i64 - count as i64, plain_left as i64 - plain as i64, less);
        }
    }

    /// Whether the reference always has an image, whatever its page's LSN (`REGBUF_FORCE_IMAGE`).
    pub(crate) fn is_forced(&self, record: &Record<'_>, block: &BlockRef) -> bool {
        if record.header.rmgr == RmgrId::XLOG {
            return record.header.info & 0xF0 == XLOG_FPI;
        }
        self.classes
            .get(&key(record, block, ANY_FORK))
            .is_some_and(|class| class.bare == 0 && class.imaged_at_small_gap >= FORCED_LEAST)
    }

    /// Bytes of data that the reference, which has an image and none, would have without it.
    pub(crate) fn bare_data_bytes(&self, record: &Record<'_>, block: &BlockRef, fork: ForkNumber) -> u32 {
        [fork, ANY_FORK]
            .into_iter()
            .filter_map(|fork| self.classes.get(&key(record, block, fork)))
            .find(|class| class.bare > 0)
            .map_or(0, |class| {
                ((class.bare_data_bytes + u64::from(class.bare) / 2) / u64::from(class.bare)) as u32
            })
    }

    /// Whether the reference, which has data and no image, would keep the data beside one
    /// (`REGBUF_KEEP_DATA`: `wal_level=logical`).
    pub(crate) fn keeps_data(&self, record: &Record<'_>, block: &BlockRef, fork: ForkNumber) -> bool {
        [fork, ANY_FORK]
            .into_iter()
            .filter_map(|fork| self.classes.get(&key(record, block, fork)))
            .find(|class| class.imaged > 0)
            .is_some_and(|class| 2 * class.imaged_with_data >= class.imaged)
    }

    /// Bytes, without compression, of the image of a page that was never seen.
    pub(crate) fn mean_size(&self, fork: ForkNumber) -> u16 {
        let sizes = self.sizes.get(fork as usize);
        sizes
            .and_then(Sizes::mean)
            .or_else(|| sizes.and_then(Sizes::followed_mean))
            .or(self.all.mean())
            .or(self.all.followed_mean())
            .unwrap_or(UNKNOWN_SIZE)
            .min(8192) as u16
    }

    /// Whether images of the relation tell how large they are.
    pub(crate) fn has_mean(&self, fork: ForkNumber) -> bool {
        self.sizes.get(fork as usize).is_some_and(|sizes| sizes.count >= IMAGES_LEAST)
    }

    /// Counts a size that was followed without an image.
    #[inline]
    pub(crate) fn follow(&mut self, fork: ForkNumber, size: u16) {
        self.make_room(fork);
        for sizes in self.sizes.get_mut(fork as usize).into_iter().chain([&mut self.all]) {
            sizes.followed += 1;
            sizes.followed_bytes += u64::from(size);
        }
    }

    /// Counts a tuple that was added to a page.
    #[inline]
    pub(crate) fn add_tuple(&mut self, fork: ForkNumber, bytes: u32) {
        self.make_room(fork);
        if let Some(sizes) = self.sizes.get_mut(fork as usize) {
            sizes.tuples += 1;
            sizes.tuple_bytes += u64::from(bytes);
        }
    }

    /// What tuples of the table take.
    #[inline]
    pub(crate) fn tuples(&self, fork: ForkNumber) -> Tuples {
        let Some(sizes) = self.sizes.get(fork as usize) else { return Tuples::default() };
        let mean = |bytes: u64, count: u64| (count > 0).then(|| (bytes / count.max(1)) as u32);
        let added = mean(sizes.tuple_bytes, sizes.tuples);
        Tuples { added, present: mean(sizes.pointed_bytes, sizes.pointers).or(added) }
    }

    fn make_room(&mut self, fork: ForkNumber) {
        if self.sizes.len() <= fork as usize {
            self.sizes.resize(fork as usize + 1, Sizes::default());
        }
    }

    /// Bytes that an image of `plain` bytes takes in the WAL, stored that way.
    pub(crate) fn stored_bytes(&self, plain: u16, fork: ForkNumber, way: ImageCompression) -> u16 {
        let method = match way {
            ImageCompression::Off => return plain,
            ImageCompression::AsRecorded => match self.method {
                None => return plain,
                Some(method) => method,
            },
            ImageCompression::Method(method) => method,
        };
        let place = place(method);
        let sampled =
            |sizes: &Sizes| (sizes.sampled_plain_bytes, sizes.sampled_bytes.get(place).copied().unwrap_or(0));
        // Without any contents, what was stored by that method tells of it.
        let stored = |sizes: &Sizes| sizes.stored.get(place).copied().unwrap_or_default();
        let sizes = self.sizes.get(fork as usize);
        let (whole, compressed) =
            [sizes.map(sampled), Some(sampled(&self.all)), sizes.map(stored), Some(stored(&self.all))]
                .into_iter()
                .flatten()
                .find(|(whole, _)| *whole > 0)
                .unwrap_or((1, 1));
        ((u64::from(plain) * compressed + whole / 2) / whole) as u16
    }

    /// Method by which the recording's last image was compressed.
    pub(crate) fn method(&self) -> Option<Compression> {
        self.method
    }

    pub(crate) fn sample(&self) -> ImageSample {
        let mut methods = ByMethod::<MethodSample>::default();
        let spent = self.compressor.nanoseconds();
        for (sample, ((bytes, nanoseconds), error)) in
            methods.0.iter_mut().zip(self.all.sampled_bytes.into_iter().zip(spent).zip(self.errors()))
        {
            *sample = MethodSample { bytes, nanoseconds, error };
        }
        ImageSample { count: self.all.sampled, plain_bytes: self.all.sampled_plain_bytes, methods }
    }

    /// Standard error, as a share, of what all images of the recording take under each method.
    fn errors(&self) -> [Option<f64>; 3] {
        let (mut all, mut squares) = ([0.0; 3], [0.0; 3]);
        for sizes in self.sizes.iter().filter(|sizes| sizes.count > 0) {
            let (seen, errors) = match sizes.sampled {
                0 => (&self.all, [UNSEEN_ERROR; 3]),
                _ => (sizes, sizes.errors()),
            };
            for (((all, squares), bytes), error) in
                all.iter_mut().zip(&mut squares).zip(seen.sampled_bytes).zip(errors)
            {
                let ratio = bytes as f64 / (seen.sampled_plain_bytes as f64).max(1.0);
                let taken = sizes.plain_bytes as f64 * ratio;
                *all += taken;
                *squares += (error * taken).powi(2);
            }
        }
        let mut errors = [None; 3];
        for (error, (all, squares)) in errors.iter_mut().zip(all.into_iter().zip(squares)) {
            *error = (self.all.sampled > 0 && all > 0.0).then(|| squares.sqrt() / all);
        }
        errors
    }
}

/// Compresses an image by each method.
pub(crate) fn look_at(compressor: &mut Compressor<'_>, image: &Image, bytes: &[u8]) -> Look {
    if is_blank(bytes) {
        return None;
    }
    let lengths = compressor.lengths(image, bytes)?;
    let unpacked = image.compression.and_then(|_| tuples_on(compressor.page()));
    Some((lengths, unpacked))
}

fn place(method: Compression) -> usize {
    Compression::ALL.iter().position(|known| *known == method).unwrap_or(0)
}

/// Whether the image's contents were taken out (`walproof_wal::strip`), but for the page's header.
pub(crate) fn is_blank(image: &[u8]) -> bool {
    image.get(24..).is_some_and(|contents| contents.iter().all(|byte| *byte == 0))
}

/// Line pointers of a table's page, and the bytes of their tuples (`PageHeaderData`,
/// src/include/storage/bufpage.h: pd_lower, pd_upper and pd_special at bytes 12, 14 and 16).
fn tuples_on(page: &[u8]) -> Option<(u64, u64)> {
    let field = |at: usize| Some(u64::from(u16::from_le_bytes([*page.get(at)?, *page.get(at + 1)?])));
    let (lower, upper, special) = (field(12)?, field(14)?, field(16)?);
    let is_table = special == u64::from(BLOCK_SIZE) && (24..=upper).contains(&lower) && upper <= special;
    (is_table && lower > 24).then(|| ((lower - 24) / 4, special - upper))
}

/// Whether the reference has an image that recovery restores.
pub(crate) fn has_image(block: &BlockRef) -> bool {
    block.image.is_some_and(|image| image.apply)
}

/// XLOG/FPI_FOR_HINT: a record that is there for its image only, when a hint bit was set.
pub(crate) fn is_hint(record: &Record<'_>) -> bool {
    record.header.rmgr == RmgrId::XLOG && record.header.info & 0xF0 == XLOG_FPI_FOR_HINT
}

fn key(record: &Record<'_>, block: &BlockRef, fork: ForkNumber) -> ClassKey {
    u64::from(fork) << 24
        | u64::from(record.header.rmgr.0) << 16
        | u64::from(record.header.info & 0xF0) << 8
        | u64::from(block.id)
}
