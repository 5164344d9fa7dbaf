//! Counts what replay has to do with records, and makes the stream of references that is simulated.

use crate::ahead::Ahead;
use crate::brief::Brief;
use crate::dropped::Dropped;
use crate::kinds::Kinds;
use crate::pages::Pages;
use crate::reference::{flags_of, Event, Images, Piece, Reference, BUILT, DONE, FAR, LAST, NOT_REPLAYED};
use crate::work::Work;
use crate::written::Written;

/// The work from a redo point on, except what needs simulations.
#[derive(Debug)]
pub(crate) struct Counter {
    images: Images,
    written: Option<Written>,
    kinds: Kinds,
    pub(crate) pages: Pages,
    pub(crate) ahead: Ahead,
    /// References and events that were not taken yet.
    pub(crate) piece: Piece,
    /// References before `piece`.
    base: u64,
    work: Work,
}

impl Counter {
    pub(crate) fn new(images: Images, read_ahead: u32, written: Option<Written>) -> Counter {
        Counter {
            images,
            written,
            kinds: Kinds::new(),
            pages: Pages::new(),
            ahead: Ahead::new(read_ahead),
            piece: Piece::default(),
            base: 0,
            work: Work::default(),
        }
    }

    /// The number of the next reference.
    pub(crate) fn at(&self) -> u64 {
        self.base + self.piece.references.len() as u64
    }

    /// What was counted so far.
    pub(crate) fn work(&self) -> Work {
        let (pages, disk_requests) = (self.pages.count(), self.ahead.requests());
        Work { pages, disk_requests, ..self.work }
    }

    /// The references since this was called last; `next` takes those that come.
    pub(crate) fn take(&mut self, next: Piece) -> Piece {
        let piece = std::mem::replace(&mut self.piece, next);
        self.base += piece.references.len() as u64;
        piece
    }

    #[inline]
    pub(crate) fn add(&mut self, record: &Brief<'_>) {
        self.work.add_record(record);
        self.work.unforeseen += u64::from(self.kinds.is_unforeseen(record.rmgr, record.info));
        let mut compacts = record.compacts;
        for block in record.blocks {
            let (page, is_new, is_far) = self.pages.number(block.relation, block.fork, block.block);
            let mut flags = flags_of(record, block, self.images, is_new);
            if is_far {
                flags |= FAR;
            }
            let at = self.at();
            if self.written.as_mut().is_some_and(|written| written.is_newer(page, at, flags)) {
                flags |= DONE;
                self.work.done += 1;
            }
            if is_new && flags & (BUILT | NOT_REPLAYED) == 0 {
                if let Some((fork, block)) = self.pages.place(page) {
                    self.ahead.read(fork, block);
                }
            }
            self.work.restored += u64::from(flags & BUILT != 0 && !block.will_init);
            self.work.compactions += u64::from(compacts && flags & (BUILT | DONE) == 0);
            compacts = false;
            self.piece.references.push(Reference { page, flags });
        }
        if !record.blocks.is_empty() {
            if let Some(last) = self.piece.references.last_mut() {
                last.flags |= LAST;
            }
        }
        if let Some(dropped) = &record.dropped {
            self.drop_pages(dropped);
        }
    }

    fn drop_pages(&mut self, dropped: &Dropped) {
        self.work.add_dropped(dropped);
        let at = self.at();
        let events = &mut self.piece.events;
        let mut drop_all = |relation, fork, first| {
            for page in self.pages.of_relation(relation, fork, first) {
                events.push((at, Event::Drop(page)));
                if let Some((fork, block)) = self.pages.place(page) {
                    self.ahead.forget(fork, block);
                }
            }
        };
        match dropped {
            Dropped::Relations(relations) => {
                for relation in relations {
                    (0..4).for_each(|fork| drop_all(*relation, fork, 0));
                }
            }
            Dropped::End(relation, first) => drop_all(*relation, 0, *first),
            Dropped::Database(database) => {
                for (relation, fork) in self.pages.of_database(*database) {
                    drop_all(relation, fork, 0);
                }
            }
        }
    }
}
