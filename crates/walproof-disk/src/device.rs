//! How long a device takes: it has a latency for each flush, a bandwidth, and one queue for everybody.
//!
//! PostgreSQL has at most one WAL flush under way (WALWriteLock), so the queue matters only when the flushes
//! of a checkpoint meet those of the WAL. Large flushes are therefore cut into quanta, between which others
//! get their turn, as a device's own scheduler does.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that one turn in the queue transfers.
pub const QUANTUM_BYTES: u64 = 1 << 20;

/// Figures of a device. Zero means no delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Time of a flush that has nothing to transfer, in nanoseconds.
    pub flush_ns: u64,
    /// Sequential write bandwidth, in bytes per second.
    pub write_bytes_per_s: u64,
}

/// A named device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// As typed in `--device`.
    pub name: &'static str,
    /// Its figures.
    pub device: Device,
    /// What it stands for.
    pub about: &'static str,
}

/// The devices that have names.
pub const PROFILES: [Profile; 5] = [
    Profile {
        name: "hdd-7200",
        device: Device { flush_ns: 8_330_000, write_bytes_per_s: 150 << 20 },
        about: "7200/min disk, write cache flushed: one revolution each time",
    },
    Profile {
        name: "sata-ssd-consumer",
        device: Device { flush_ns: 2_500_000, write_bytes_per_s: 450 << 20 },
        about: "SATA SSD without power-loss protection: a flush programs flash",
    },
    Profile {
        name: "nvme-plp",
        device: Device { flush_ns: 30_000, write_bytes_per_s: 2 << 30 },
        about: "NVMe SSD with power-loss protection: a flush is a write into its capacitor-backed memory",
    },
    Profile {
        name: "cloud-network",
        device: Device { flush_ns: 800_000, write_bytes_per_s: 125 << 20 },
        about: "network block storage at its base throughput of 125 MB/s",
    },
    Profile {
        name: "doc-000-vm",
        device: Device { flush_ns: 1_430_000, write_bytes_per_s: 200 << 20 },
        about: "the virtual machine of a published comparison (582 tps, 3525 with fsync=off), whose flush is 1.43 ms",
    },
];

impl Device {
    /// Time to transfer this many bytes, in nanoseconds.
    #[must_use]
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        if self.write_bytes_per_s == 0 {
            return 0;
        }
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.write_bytes_per_s);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Whether it delays anything.
    #[must_use]
    pub const fn delays(&self) -> bool {
        self.flush_ns != 0 || self.write_bytes_per_s != 0
    }
}

/// Takes a turn of `service_ns` in the queue that is free at `free_at_ns`; returns when the turn ends. Times are
/// of one monotonic clock.
pub fn take_turn(free_at_ns: &AtomicU64, now_ns: u64, service_ns: u64) -> u64 {
    let end = |free: u64| free.max(now_ns).saturating_add(service_ns);
    match free_at_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| Some(end(free))) {
        Ok(free) | Err(free) => end(free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_each_other_and_an_idle_queue_does_not_save_up() {
        let free = AtomicU64::new(0);
        assert_eq!(take_turn(&free, 100, 10), 110);
        assert_eq!(take_turn(&free, 100, 10), 120);
        assert_eq!(take_turn(&free, 105, 5), 125);
        assert_eq!(take_turn(&free, 1000, 10), 1010);
    }

    #[test]
    fn transfer_time_is_bytes_over_bandwidth() {
        let device = Device { flush_ns: 0, write_bytes_per_s: 200_000_000 };
        assert_eq!(device.transfer_ns(QUANTUM_BYTES), 5_242_880);
        assert_eq!(Device::default().transfer_ns(u64::MAX), 0);
        assert_eq!(Device { write_bytes_per_s: 1, ..device }.transfer_ns(u64::MAX), u64::MAX);
        assert!(device.delays() && !Device::default().delays());
    }
}
