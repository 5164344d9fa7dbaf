//! What the kernel reads for replay that asks for nothing ahead (`recovery_prefetch=off`): the page that is
//! needed, and those after it if the reader seems to go through the file (`page_cache_sync_ra` and
//! `page_cache_async_ra`, mm/readahead.c of Linux 6): because the page before was read last, or because pages
//! before are in its cache, as most are in the end.
//!
//! The WAL does not tell where files end, so only reads of the disk are counted, not how much is read beyond
//! the page.

use walproof_wal::{ForkNumber, PageTable};

const NONE: u32 = u32::MAX;

// What is known about a page, in a byte.

/// The kernel has it.
const CACHED: u8 = 1;
/// When it is read, more is read ahead.
const MARKED: u8 = 2;
/// A read of the disk began with it.
const ASKED: u8 = 4;

/// What the kernel knows about a file that is read (`struct file_ra_state`), in pages of 8 kB.
#[derive(Clone, Copy, Debug)]
struct File {
    /// Read last.
    last: u32,
    /// What was read ahead last, and how many pages at its end are to be left when more is read.
    start: u32,
    size: u32,
    left: u32,
}

/// The kernel's cache of relations' files, and reads of the disk for it.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// The most pages that are read at once (`read_ahead_kb` of the disk).
    most: u32,
    pages: PageTable<u8>,
    files: Vec<File>,
    requests: u64,
}

impl Ahead {
    pub(crate) fn new(most: u32) -> Ahead {
        Ahead { most: most.max(1), pages: PageTable::new(0), files: Vec::new(), requests: 0 }
    }

    /// Reads of the disk.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Bytes that it takes, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.pages.memory_bytes()
    }

    /// A page is read.
    pub(crate) fn read(&mut self, fork: ForkNumber, block: u32) {
        let unread = File { last: NONE, start: 0, size: 0, left: 0 };
        if self.files.len() <= fork as usize {
            self.files.resize(fork as usize + 1, unread);
        }
        let mut file = self.files.get(fork as usize).copied().unwrap_or(unread);
        let page = self.pages.page(fork, block);
        if *page & CACHED == 0 {
            self.miss(&mut file, fork, block);
        } else if *page & MARKED != 0 {
            *page &= !MARKED;
            self.more(&mut file, fork, block);
        }
        file.last = block;
        if let Some(own) = self.files.get_mut(fork as usize) {
            *own = file;
        }
    }

    /// The page's file is gone, or ends before it.
    pub(crate) fn forget(&mut self, fork: ForkNumber, block: u32) {
        let page = self.pages.page(fork, block);
        self.requests -= u64::from(*page & ASKED != 0);
        *page = 0;
    }

    /// `page_cache_sync_ra`: the page is not there.
    fn miss(&mut self, file: &mut File, fork: ForkNumber, block: u32) {
        if block == 0 || block == file.last.wrapping_add(1) {
            file.size = self.first_size();
            file.left = file.size - 1;
        } else {
            let before = self.cached_before(fork, block);
            if before <= 1 {
                self.ask(fork, block, 1, 0);
                return;
            }
            let all = if before == block { before * 2 } else { before };
            file.size = (all + 1).min(self.most);
            file.left = 1;
        }
        file.start = block;
        self.ask(fork, file.start, file.size, file.left);
    }

    /// `page_cache_async_ra`: the page is there and says that it is time for more.
    fn more(&mut self, file: &mut File, fork: ForkNumber, block: u32) {
        if block == file.start.saturating_add(file.size - file.left) {
            file.start = file.start.saturating_add(file.size);
            file.size = file.size.max(self.next_size(file.size));
        } else {
            let most = self.most;
            let Some(ahead) = (1..=most).find(|ahead| !self.is_cached(fork, block.saturating_add(*ahead)))
            else {
                return;
            };
            file.start = block.saturating_add(ahead);
            file.size = self.next_size(ahead + 1);
        }
        file.left = file.size;
        self.ask(fork, file.start, file.size, file.left);
    }

    /// `get_init_ra_size` of a page of 8 kB, two of the kernel's.
    fn first_size(&self) -> u32 {
        match self.most {
            32.. => 4,
            4.. => 2,
            most => most,
        }
    }

    /// `get_next_ra_size`.
    fn next_size(&self, size: u32) -> u32 {
        if size < self.most / 16 {
            size * 4
        } else if size <= self.most / 2 {
            size * 2
        } else {
            self.most
        }
    }

    fn is_cached(&mut self, fork: ForkNumber, block: u32) -> bool {
        *self.pages.page(fork, block) & CACHED != 0
    }

    /// Pages just before that are there.
    fn cached_before(&mut self, fork: ForkNumber, block: u32) -> u32 {
        let most = self.most.min(block);
        (1..=most).find(|back| !self.is_cached(fork, block - back)).map_or(most, |back| back - 1)
    }

    /// Reads `size` pages, as far as they are not there: each run of them at once. The first of the last `left`, if it
    /// was read, says later that it is time for more.
    fn ask(&mut self, fork: ForkNumber, start: u32, size: u32, left: u32) {
        let mark = if left > 0 { start.saturating_add(size - left) } else { NONE };
        let mut is_asking = false;
        for block in start..start.saturating_add(size) {
            let page = self.pages.page(fork, block);
            if *page & CACHED != 0 {
                is_asking = false;
                continue;
            }
            *page |= CACHED;
            if block == mark {
                *page |= MARKED;
            }
            if !is_asking {
                *page |= ASKED;
                self.requests += 1;
                is_asking = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(most: u32, blocks: impl IntoIterator<Item = u32>) -> u64 {
        let mut ahead = Ahead::new(most);
        blocks.into_iter().for_each(|block| ahead.read(0, block));
        ahead.requests()
    }

    #[test]
    fn in_order_ever_more_is_read_until_it_is_the_most() {
        // 2 pages, then 2, 4, 8, and 16 from then on (128 kB): 1000 pages.
        assert_eq!(requests(16, 0..2 + 2), 2 + 1);
        let reads = requests(16, 0..1000);
        assert!((60..=70).contains(&reads), "{reads}");
        assert!(requests(1024, 0..10_000) < 30);
    }

    #[test]
    fn far_from_each_other_each_is_read_alone() {
        assert_eq!(requests(16, (0..1000).map(|number| 7 + number * 3)), 1000);
        assert_eq!(requests(16, (0..1000).rev().map(|number| 7 + number * 3)), 1000);
    }

    #[test]
    fn where_pages_before_are_there_those_behind_are_read() {
        // Two pages before 12, so three from there on; the one between them is there, so the disk is asked twice.
        assert_eq!(requests(16, [11, 10, 13, 12]), 3 + 2);
        // One page before may be chance.
        assert_eq!(requests(16, [11, 20, 12, 30, 13]), 4 + 1);
        assert_eq!(requests(16, [10, 20, 11, 30, 13]), 5);
        let mut ahead = Ahead::new(16);
        for block in [11, 10, 12] {
            ahead.read(0, block);
        }
        assert_eq!(ahead.requests(), 3);
        ahead.read(0, 13);
        ahead.read(0, 14);
        assert_eq!(ahead.requests(), 3 + 1, "the page after next says that it is time for more");
    }

    #[test]
    fn files_that_are_gone_were_not_read() {
        let mut ahead = Ahead::new(16);
        for block in [3, 30, 60] {
            ahead.read(1, block);
            ahead.read(2, block);
        }
        for block in [3, 30, 60] {
            ahead.forget(1, block);
        }
        assert_eq!(ahead.requests(), 3);
    }
}
