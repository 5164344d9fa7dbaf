//! The simulation against a slow, plain model of recovery: one record after the other, everything in lists.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[allow(dead_code)]
#[path = "../../walproof-wal/tests/support/forge.rs"]
mod forge;

use std::collections::{BTreeSet, HashMap, VecDeque};

use forge::Forge;
use proptest::prelude::*;
use walproof_recovery::{analyse, Plan, PoolWork, DISTANT_PAGES, RECENT_PAGES};
use walproof_wal::{Lsn, PgVersion, Range, Segments};

const HEAP: u8 = 10;
const LOCK: u8 = 0x60;
const TRANSACTION: u8 = 1;
const COMMIT_WITH_INFO: u8 = 0x80;
const STORAGE: u8 = 2;
const TRUNCATE: u8 = 0x20;

type PageName = (u32, u8, u32);

#[derive(Clone, Debug)]
struct Touch {
    page: PageName,
    has_image: bool,
    will_init: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Change(Vec<Touch>),
    DropRelation(u32),
    Truncate(u32, u32),
}

fn touch() -> impl Strategy<Value = Touch> {
    // Few relations, some pages that come again and again, some that do not.
    (0u32..3, 0u8..8, 0u32..12, 0u32..300, 0u8..4, 0u8..10).prop_map(
        |(relation, fork, hot, cold, die, kind)| Touch {
            page: (100 + relation, u8::from(fork == 0), if die < 3 { hot } else { cold }),
            has_image: kind < 3,
            will_init: kind == 3,
        },
    )
}

/// Of each kind that recovery distinguishes, among those that prefetch.
fn version() -> impl Strategy<Value = PgVersion> {
    prop_oneof![Just(PgVersion::V15), Just(PgVersion::V18), Just(PgVersion::V19)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => prop::collection::vec(touch(), 1..4).prop_map(Step::Change),
        1 => (0u32..3).prop_map(|relation| Step::DropRelation(100 + relation)),
        1 => (0u32..3, 0u32..300).prop_map(|(relation, first)| Step::Truncate(100 + relation, first)),
    ]
}

/// A page in a buffer.
#[derive(Clone, Copy)]
struct Held {
    page: PageName,
    usage: u32,
    came_far: bool,
    is_dirty: bool,
}

/// Recovery with one size of `shared_buffers`.
struct Model {
    /// And does not count the use of a buffer that the prefetcher found: to 18.
    has_free_list: bool,
    size: usize,
    /// None: it is free.
    buffers: Vec<Option<Held>>,
    /// Buffers in the order in which they will be taken.
    free: VecDeque<usize>,
    used: BTreeSet<usize>,
    hand: usize,
    touched: BTreeSet<PageName>,
    cached: BTreeSet<PageName>,
    from_disk: BTreeSet<PageName>,
    /// Page -> before which touch it was written last.
    written: HashMap<PageName, usize>,
    touches: usize,
    /// Pages that were dropped after they were changed.
    extensions: u64,
    work: PoolWork,
}

impl Model {
    fn new(version: PgVersion, size: usize) -> Model {
        let has_free_list = version < PgVersion::V19;
        Model {
            has_free_list,
            size,
            buffers: vec![None; size],
            free: if has_free_list { (0..size).collect() } else { VecDeque::new() },
            used: BTreeSet::new(),
            hand: 0,
            touched: BTreeSet::new(),
            cached: BTreeSet::new(),
            from_disk: BTreeSet::new(),
            written: HashMap::new(),
            touches: 0,
            extensions: 0,
            work: PoolWork::default(),
        }
    }

    fn find(&self, page: PageName) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.is_some_and(|held| held.page == page))
    }

    /// `was_found`: the prefetcher found the page; `is_done`: the page on disk is newer.
    fn touch(&mut self, touch: &Touch, is_far: bool, was_found: bool, is_done: bool) {
        self.touches += 1;
        if !is_done {
            self.touched.insert(touch.page);
        }
        if let Some(buffer) = self.find(touch.page) {
            let held = self.buffers[buffer].as_mut().unwrap();
            held.is_dirty |= !is_done;
            if !was_found || !self.has_free_list {
                held.usage = (held.usage + 1).min(5);
            }
            return;
        }
        self.work.misses += 1;
        if !touch.has_image && !touch.will_init {
            self.work.reads += 1;
            self.work.far_reads += u64::from(is_far);
            self.read(touch.page);
        }
        let buffer = self.free.pop_front().unwrap_or_else(|| loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.size;
            let Some(held) = self.buffers[at].as_mut() else { break at };
            if held.usage == 0 {
                if held.is_dirty {
                    self.cached.insert(held.page);
                    let before = self.written.insert(held.page, self.touches - 1);
                    self.work.first_writes += u64::from(before.is_none());
                    self.work.evictions += 1;
                    self.work.far_evictions += u64::from(held.came_far);
                }
                break at;
            }
            held.usage -= 1;
        });
        self.work.frames += u64::from(self.used.insert(buffer));
        self.buffers[buffer] =
            Some(Held { page: touch.page, usage: 1, came_far: is_far, is_dirty: !is_done });
    }

    fn read(&mut self, page: PageName) {
        if self.cached.insert(page) {
            self.from_disk.insert(page);
        }
    }

    fn drop(&mut self, page: PageName) {
        self.extensions += u64::from(self.touched.remove(&page));
        self.from_disk.remove(&page);
        self.written.remove(&page);
        self.cached.remove(&page);
        if let Some(buffer) = self.find(page) {
            self.buffers[buffer] = None;
            if self.has_free_list {
                self.free.push_front(buffer);
            }
        }
    }

    /// Whether it was found; it is asked for if not.
    fn prefetch(&mut self, page: PageName) -> bool {
        let is_found = self.find(page).is_some();
        if !is_found {
            self.work.prefetches += 1;
            self.read(page);
        }
        is_found
    }

    fn work(&self) -> PoolWork {
        PoolWork {
            disk_reads: self.from_disk.len() as u64,
            resident: self.buffers.iter().flatten().filter(|held| held.is_dirty).count() as u64,
            ..self.work
        }
    }

    /// Dirty pages, the runs among them, and pages that were made anew.
    fn dirty(&self) -> (u64, u64, u64) {
        let follows = self.touched.iter().filter(|(relation, fork, block)| {
            *block > 0 && self.touched.contains(&(*relation, *fork, block - 1))
        });
        (self.touched.len() as u64, (self.touched.len() - follows.count()) as u64, self.extensions)
    }
}

/// Replays everything; the work, and the dirty pages, at each of the steps in `marks` and at the end.
fn replay(
    version: PgVersion,
    steps: &[Step],
    size: usize,
    concurrency: usize,
    marks: &[usize],
) -> (Vec<PoolWork>, Vec<(u64, u64, u64)>) {
    let (_, found, dirty) = replay_after(version, steps, size, concurrency, marks, &HashMap::new());
    (found, dirty)
}

/// Before which touch each page was written last by a server with so many buffers that crashed at the end, if that
/// makes a difference to one page in a hundred.
fn written_by(version: PgVersion, steps: &[Step], size: usize) -> HashMap<PageName, usize> {
    let (model, _, _) = replay_after(version, steps, size, 0, &[], &HashMap::new());
    let mut first: HashMap<PageName, bool> = HashMap::new();
    for step in steps {
        let Step::Change(touches) = step else { continue };
        for touch in touches {
            first.entry(touch.page).or_insert(!touch.has_image && !touch.will_init);
        }
    }
    let is_newer = |page: &PageName| first[page] && model.written.contains_key(page);
    let newer = first.keys().filter(|page| is_newer(page)).count();
    if newer * 100 > first.len() {
        model.written
    } else {
        HashMap::new()
    }
}

/// As `replay`, of pages that were written already; and the model at the end.
fn replay_after(
    version: PgVersion,
    steps: &[Step],
    size: usize,
    concurrency: usize,
    marks: &[usize],
    written: &HashMap<PageName, usize>,
) -> (Model, Vec<PoolWork>, Vec<(u64, u64, u64)>) {
    let mut model = Model::new(version, size);
    let mut built = BTreeSet::new();
    let all: Vec<(usize, &Touch)> = steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| if let Step::Change(touches) = step { Some((at, touches)) } else { None })
        .flat_map(|(at, touches)| touches.iter().map(move |touch| (at, touch)))
        .collect();
    let mut seen: Vec<PageName> = Vec::new();
    let mut queue: VecDeque<(usize, bool)> = VecDeque::new();
    let mut ahead = 0;
    let mut recent: VecDeque<PageName> = VecDeque::new();
    // Numbers of touches whose page the prefetcher found.
    let mut looked_up: BTreeSet<usize> = BTreeSet::new();
    let (mut found, mut dirty) = (Vec::new(), Vec::new());
    for (at, step) in steps.iter().enumerate() {
        if marks.contains(&at) {
            found.push(model.work());
            dirty.push(model.dirty());
        }
        if concurrency > 0 && matches!(step, Step::Change(_)) {
            queue.retain(|(step, _)| *step >= at);
            while all.get(ahead).is_some_and(|(step, _)| *step < at) {
                ahead += 1;
            }
            while queue.len() < 4 * concurrency && queue.iter().filter(|(_, io)| *io).count() < concurrency {
                let Some((step, touch)) = all.get(ahead) else { break };
                let is_looked_at = touch.page.1 == 0 && !touch.has_image && !touch.will_init;
                let mut io = false;
                if is_looked_at && !recent.contains(&touch.page) {
                    recent.push_back(touch.page);
                    if recent.len() > 4 {
                        recent.pop_front();
                    }
                    io = !model.prefetch(touch.page);
                    if !io {
                        looked_up.insert(ahead);
                    }
                }
                queue.push_back((*step, io));
                ahead += 1;
            }
        }
        match step {
            Step::Change(touches) => {
                for touch in touches {
                    let fork = |page: &&PageName| (page.0, page.1) == (touch.page.0, touch.page.1);
                    let before = seen.iter().rev().find(fork).copied();
                    let was_found = looked_up.contains(&seen.len());
                    if touch.has_image || touch.will_init {
                        built.insert(touch.page);
                    }
                    let is_done = !built.contains(&touch.page)
                        && written.get(&touch.page).is_some_and(|before| seen.len() < *before);
                    seen.push(touch.page);
                    let is_far = before.is_none_or(|before| before.2.abs_diff(touch.page.2) > 8);
                    model.touch(touch, is_far, was_found, is_done);
                }
            }
            // Pages go in the order of their first appearance.
            Step::DropRelation(relation) => {
                for fork in 0..2 {
                    drop_pages(&mut model, &seen, |page| page.0 == *relation && page.1 == fork);
                }
            }
            Step::Truncate(relation, first) => {
                drop_pages(&mut model, &seen, |page| page.0 == *relation && page.1 == 0 && page.2 >= *first);
            }
        }
    }
    found.push(model.work());
    dirty.push(model.dirty());
    (model, found, dirty)
}

fn drop_pages(model: &mut Model, seen: &[PageName], is_dropped: impl Fn(PageName) -> bool) {
    let mut gone = BTreeSet::new();
    for page in seen {
        if is_dropped(*page) && gone.insert(*page) {
            model.drop(*page);
        }
    }
}

/// References whose page is not among so many that were referenced last.
fn recent_misses(steps: &[Step], pages: u32) -> u64 {
    let mut last: HashMap<PageName, u64> = HashMap::new();
    let (mut now, mut misses) = (0, 0);
    for step in steps {
        let Step::Change(touches) = step else { continue };
        for touch in touches {
            now += 1;
            let is_recent = last
                .get(&touch.page)
                .is_some_and(|before| last.values().filter(|other| *other > before).count() < pages as usize);
            misses += u64::from(!is_recent);
            last.insert(touch.page, now);
        }
    }
    misses
}

fn forge(version: PgVersion, steps: &[Step]) -> (Segments, Lsn, Vec<Lsn>) {
    let mut forge = Forge::new(version, 1);
    let start = forge.position();
    let mut begins = Vec::new();
    for step in steps {
        begins.push(forge.position());
        match step {
            Step::Change(touches) => forge.record(HEAP, LOCK, 7, &content(version, touches)),
            Step::DropRelation(relation) => {
                let mut data = vec![0u8; 8];
                for word in [0x1u32 | 0x2 | 0x4, 5, 1663, 1, 9, 1, 1663, 5, *relation] {
                    data.extend(word.to_le_bytes());
                }
                forge.record(TRANSACTION, COMMIT_WITH_INFO, 7, &main_data(&data))
            }
            Step::Truncate(relation, first) => {
                let mut data = Vec::new();
                for word in [*first, 1663, 5, *relation, 7] {
                    data.extend(word.to_le_bytes());
                }
                forge.record(STORAGE, TRUNCATE, 7, &main_data(&data))
            }
        };
    }
    (Segments::from_memory(forge.segments()), start, begins)
}

fn main_data(data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![255, u8::try_from(data.len()).unwrap()];
    bytes.extend(data);
    bytes
}

fn content(version: PgVersion, touches: &[Touch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut payload = Vec::new();
    for (id, touch) in touches.iter().enumerate() {
        let (relation, fork, block) = touch.page;
        let flags = fork | if touch.has_image { 0x10 } else { 0 } | if touch.will_init { 0x40 } else { 0 };
        bytes.extend([u8::try_from(id).unwrap(), flags, 0, 0]);
        if touch.has_image {
            bytes.extend(500u16.to_le_bytes());
            bytes.extend(100u16.to_le_bytes());
            // A hole, and to be applied.
            bytes.push(0x01 | if version < PgVersion::V15 { 0x04 } else { 0x02 });
            payload.extend([0x5A; 500]);
        }
        for word in [1663u32, 5, relation, block] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes.extend([255, 4]);
    bytes.extend(payload);
    bytes.extend([1; 4]);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_size_does_what_its_own_server_would(
        steps in prop::collection::vec(step(), 50..1500),
        // More than are simulated together.
        sizes in prop::collection::vec(1u32..400, 1..12),
        concurrency in 1u32..20,
        marks in prop::collection::btree_set(1usize..1400, 0..4),
        version in version(),
    ) {
        let (segments, start, begins) = forge(version, &steps);
        let marks: Vec<usize> = marks.into_iter().filter(|mark| *mark < steps.len()).collect();
        let plan = Plan {
            buffers: sizes.clone(),
            concurrency: Some(concurrency),
            marks: marks.iter().map(|mark| begins[*mark]).collect(),
            ..Plan::default()
        };
        let found = analyse(segments, Range { start: Some(start), ..Range::default() }, &plan).unwrap();
        prop_assert_eq!(found.features.len(), marks.len() + 1);
        for (at, size) in sizes.iter().enumerate() {
            let (expected, dirty) = replay(version, &steps, *size as usize, concurrency as usize, &marks);
            let got: Vec<PoolWork> = found.features.iter().map(|features| features.pools[at]).collect();
            prop_assert_eq!(got, expected, "{} buffers", size);
            let got = found.features.iter().map(|features| features.work);
            let got = got.map(|work| (work.dirty, work.runs, work.extensions));
            prop_assert_eq!(got.collect::<Vec<_>>(), dirty);
            let (expected, _) = replay(version, &steps, *size as usize, 0, &marks);
            let got: Vec<PoolWork> = found.features.iter().map(|features| features.pools_off[at]).collect();
            prop_assert_eq!(got, expected, "{} buffers, recovery_prefetch=off", size);
        }
        let work = found.last().work;
        prop_assert_eq!(work.recent_misses, recent_misses(&steps, RECENT_PAGES));
        prop_assert_eq!(work.distant_misses, recent_misses(&steps, DISTANT_PAGES));
        prop_assert_eq!(work.records, steps.len() as u64);
        let images = steps.iter().map(|step| match step {
            Step::Change(touches) => touches.iter().filter(|touch| touch.has_image).count(),
            _ => 0,
        });
        prop_assert_eq!(work.images.off.count, images.sum::<usize>() as u64);
    }

    #[test]
    fn pages_that_were_written_before_the_crash_are_passed_over(
        steps in prop::collection::vec(step(), 50..1000),
        size in 1u32..300,
        crashed in 1u32..300,
        concurrency in 1u32..20,
        version in version(),
    ) {
        let (segments, start, _) = forge(version, &steps);
        let plan = Plan {
            buffers: vec![size],
            concurrency: Some(concurrency),
            crashed: Some(crashed),
            ..Plan::default()
        };
        let found = analyse(segments, Range { start: Some(start), ..Range::default() }, &plan).unwrap();
        let written = written_by(version, &steps, crashed as usize);
        let (_, expected, dirty) =
            replay_after(version, &steps, size as usize, concurrency as usize, &[], &written);
        let last = found.last();
        prop_assert_eq!(last.pools[0], expected[0]);
        prop_assert_eq!((last.work.dirty, last.work.runs, last.work.extensions), dirty[0]);
        prop_assert!(last.work.done == 0 || !written.is_empty());
    }

    #[test]
    fn before_15_nothing_is_prefetched(steps in prop::collection::vec(step(), 50..300)) {
        let (segments, start, _) = forge(PgVersion::V14, &steps);
        let plan = Plan { buffers: vec![50], ..Plan::default() };
        let found = analyse(segments, Range { start: Some(start), ..Range::default() }, &plan).unwrap();
        prop_assert_eq!(found.last().pools[0], replay(PgVersion::V14, &steps, 50, 0, &[]).0[0]);
        prop_assert_eq!(found.last().pools_off[0], found.last().pools[0]);
    }
}

#[test]
fn pieces_of_the_stream_do_not_show() {
    // More references than a piece has, so that records and look-ahead cross from one to the next.
    let steps: Vec<Step> = (0..90_000u32)
        .map(|n| {
            let page = |block: u32| (100, 0, block.wrapping_mul(2_654_435_761) >> 20);
            let touch = |block, has_image| Touch { page: page(block), has_image, will_init: false };
            Step::Change(vec![touch(n, n % 3 == 0), touch(n / 2, false)])
        })
        .collect();
    let (segments, start, _) = forge(PgVersion::V15, &steps);
    // In no order, and one twice.
    let sizes = [600, 64, 1 << 20, 64, 5000];
    let plan = Plan { buffers: sizes.to_vec(), ..Plan::default() };
    let found = analyse(segments, Range { start: Some(start), ..Range::default() }, &plan).unwrap();
    assert_eq!(found.last().work.references, 180_000);
    for (at, size) in sizes.into_iter().enumerate().take(2) {
        assert_eq!(
            found.last().pools[at],
            replay(PgVersion::V15, &steps, size as usize, 10, &[]).0[0],
            "{size}"
        );
    }
    assert_eq!(found.last().pools[3], found.last().pools[1]);
    // Both have room for every page.
    assert_eq!(found.last().pools[2], found.last().pools[4]);
    assert_eq!(found.last().pools[2].resident, found.last().work.pages);
}

/// From 19 on VACUUM tells of a page that became all-visible, or whose rows it froze, by records of pruning.
#[test]
fn marking_a_page_takes_nothing_apart() {
    const HEAP2: u8 = 9;
    const PRUNE_VACUUM_SCAN: u8 = 0x20;
    let page = |block| Touch { page: (100, 0, block), has_image: false, will_init: false };
    let mut forge = Forge::new(PgVersion::V19, 1);
    let start = forge.position();
    // A conflict horizon and all-visible; freeze plans as well; dead line pointers as well.
    for (block, flags) in (0..).zip([0x0108u16, 0x0118, 0x0148]) {
        let mut bytes = content(PgVersion::V19, &[page(block)]);
        let main_data = bytes.len() - 4;
        bytes[main_data..main_data + 2].copy_from_slice(&flags.to_le_bytes());
        forge.record(HEAP2, PRUNE_VACUUM_SCAN, 0, &bytes);
    }
    let segments = Segments::from_memory(forge.segments());
    let plan = Plan { buffers: vec![50], ..Plan::default() };
    let found = analyse(segments, Range { start: Some(start), ..Range::default() }, &plan).unwrap();
    assert_eq!((found.last().work.records, found.last().work.compactions), (3, 1));
}
