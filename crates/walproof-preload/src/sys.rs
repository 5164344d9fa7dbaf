//! System calls without libc: no cancellation point, no errno until the hook's own result is known, and no
//! way back into a hook.

use std::arch::asm;
use std::ffi::{c_int, CStr};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use walproof_disk::FileId;

/// Calls the kernel.
///
/// # Safety
/// As the system call: pointers among the arguments are valid for what the kernel does with them.
pub unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the x86-64 convention of Linux; rcx and r11 are the registers that it destroys.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// A kernel's result as libc returns it: -1 and errno for an error.
pub fn as_libc(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        set_errno(i32::try_from(-result).unwrap_or(libc::EIO));
        return -1;
    }
    result
}

/// As [`as_libc`], for functions that return an int.
pub fn as_int(result: isize) -> c_int {
    as_libc(result) as c_int
}

/// Sets the caller's errno.
pub fn set_errno(number: c_int) {
    // SAFETY: glibc gives the address of this thread's errno.
    unsafe { *libc::__errno_location() = number }
}

/// The arguments of a call, short ones filled with zeros.
pub fn arguments<const N: usize>(given: [usize; N]) -> [usize; 6] {
    let mut all = [0; 6];
    for (place, argument) in all.iter_mut().zip(given) {
        *place = argument;
    }
    all
}

/// A call without pointers.
fn plain<const N: usize>(number: i64, given: [usize; N]) -> isize {
    // SAFETY: no argument is a pointer.
    unsafe { call(number, arguments(given)) }
}

/// An int as the kernel takes it.
pub const fn int(value: c_int) -> usize {
    value as isize as usize
}

pub fn close(fd: c_int) -> isize {
    plain(libc::SYS_close, [int(fd)])
}

pub fn flush(fd: c_int, number: i64) -> isize {
    plain(number, [int(fd)])
}

pub fn ftruncate(fd: c_int, size: u64) -> isize {
    plain(libc::SYS_ftruncate, [int(fd), size as usize])
}

pub fn position(fd: c_int) -> isize {
    plain(libc::SYS_lseek, [int(fd), 0, libc::SEEK_CUR as usize])
}

pub fn flags_of(fd: c_int) -> c_int {
    plain(libc::SYS_fcntl, [int(fd), libc::F_GETFL as usize]) as c_int
}

/// The thread whose number is known, and the number: of one thread in a process, which is all that PostgreSQL has.
static KNOWN: AtomicUsize = AtomicUsize::new(0);
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Number of this thread.
pub fn thread() -> u64 {
    // SAFETY: reads a register.
    let me = unsafe { libc::pthread_self() } as usize;
    let known = KNOWN.load(Ordering::Relaxed);
    if known == me {
        let number = NUMBER.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
    }
    let number = plain(libc::SYS_gettid, []) as u64;
    if known == 0 && KNOWN.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        NUMBER.store(number, Ordering::Relaxed);
    }
    number
}

/// In a new child: its number is another one.
extern "C" fn forget_thread() {
    KNOWN.store(0, Ordering::Relaxed);
    NUMBER.store(0, Ordering::Relaxed);
}

/// Lets children of `fork` find out who they are.
pub fn watch_forks() {
    // SAFETY: the handler only stores to atomics.
    unsafe { libc::pthread_atfork(None, None, Some(forget_thread)) };
}

/// Whether a thread exists.
pub fn lives(thread: u64) -> bool {
    plain(libc::SYS_tkill, [thread as usize, 0]) != -(libc::ESRCH as isize)
}

pub fn yield_now() {
    plain(libc::SYS_sched_yield, []);
}

pub fn pause() {
    plain(libc::SYS_pause, []);
}

/// Wakes up sleepers on time: a timer may be late by the slack, 50 us by default.
pub fn be_punctual() {
    plain(libc::SYS_prctl, [libc::PR_SET_TIMERSLACK as usize, 1]);
}

/// Nanoseconds of a clock.
pub fn now_ns(clock: c_int) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: libc's function (vDSO: no system call) writes to a valid place and sets no errno here.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Sleeps until a time of CLOCK_MONOTONIC, whatever signals arrive: a flush cannot be interrupted either.
pub fn sleep_until(monotonic_ns: u64) {
    let time = libc::timespec {
        tv_sec: (monotonic_ns / 1_000_000_000) as i64,
        tv_nsec: (monotonic_ns % 1_000_000_000) as i64,
    };
    let given = [libc::CLOCK_MONOTONIC as usize, libc::TIMER_ABSTIME as usize, &raw const time as usize, 0];
    // SAFETY: the kernel reads the time, which lives until it returns.
    while unsafe { call(libc::SYS_clock_nanosleep, arguments(given)) } == -(libc::EINTR as isize) {}
}

/// What a file is.
#[derive(Clone, Copy)]
pub struct Status {
    pub id: FileId,
    pub size: u64,
    pub links: u64,
    mode: u32,
}

impl Status {
    pub const fn is_file(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }

    pub const fn is_folder(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    pub const fn is_symlink(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFLNK
    }
}

fn status(number: i64, head: [usize; 2], flags: c_int) -> Option<Status> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    let [a, b] = head;
    let given = match number {
        libc::SYS_fstat => arguments([a, stat.as_mut_ptr() as usize]),
        _ => arguments([a, b, stat.as_mut_ptr() as usize, int(flags)]),
    };
    // SAFETY: the kernel's struct stat is libc's on x86-64; a path in the arguments is a C string of a caller.
    if unsafe { call(number, given) } < 0 {
        return None;
    }
    // SAFETY: zeroed at first, and filled by the kernel.
    let stat = unsafe { stat.assume_init() };
    let id = FileId { device: stat.st_dev, inode: stat.st_ino };
    Some(Status { id, size: stat.st_size.max(0) as u64, links: stat.st_nlink, mode: stat.st_mode })
}

/// Of an open file.
///
/// `fstat` tells the times, too. A kernel with multigrain timestamps (6.13) then gives the next write a time of its own
/// instead of that of its tick, and on ext4 without a journal each flush after such a write writes the inode as well:
/// one write more for each commit. Who asks for no times changes nothing.
pub fn status_of(fd: c_int) -> Option<Status> {
    const WANTED: u32 =
        libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_NLINK | libc::STATX_INO | libc::STATX_SIZE;
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    let given = [
        int(fd),
        c"".as_ptr() as usize,
        int(libc::AT_EMPTY_PATH),
        WANTED as usize,
        found.as_mut_ptr() as usize,
    ];
    // SAFETY: the path is a C string, and the kernel's struct statx is libc's.
    if unsafe { call(libc::SYS_statx, arguments(given)) } < 0 {
        // Older than 4.11, or not allowed.
        return status(libc::SYS_fstat, [int(fd), 0], 0);
    }
    // SAFETY: zeroed at first, and filled by the kernel.
    let found = unsafe { found.assume_init() };
    let id = FileId { device: libc::makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino };
    Some(Status {
        id,
        size: found.stx_size,
        links: u64::from(found.stx_nlink),
        mode: u32::from(found.stx_mode),
    })
}

/// Of the name itself, not of what a symbolic link leads to.
pub fn status_at(folder: c_int, path: &CStr) -> Option<Status> {
    let given = [int(folder), path.as_ptr() as usize];
    status(libc::SYS_newfstatat, given, libc::AT_SYMLINK_NOFOLLOW)
}

pub fn open_at(folder: c_int, path: &CStr, flags: c_int, mode: libc::mode_t) -> isize {
    let given = [int(folder), path.as_ptr() as usize, int(flags), mode as usize];
    // SAFETY: the path is a C string.
    unsafe { call(libc::SYS_openat, arguments(given)) }
}

pub fn unlink_at(folder: c_int, path: &CStr, flags: c_int) -> isize {
    // SAFETY: the path is a C string.
    unsafe { call(libc::SYS_unlinkat, arguments([int(folder), path.as_ptr() as usize, int(flags)])) }
}

pub fn link_at(folder: c_int, path: &CStr, to_folder: c_int, to: &CStr, flags: c_int) -> isize {
    let given = [int(folder), path.as_ptr() as usize, int(to_folder), to.as_ptr() as usize, int(flags)];
    // SAFETY: the paths are C strings.
    unsafe { call(libc::SYS_linkat, arguments(given)) }
}

/// Target of a symbolic link, or the name of an open file under /proc/self/fd; None when it is too long too.
pub fn read_link<'a>(folder: c_int, path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let given = [int(folder), path.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len()];
    // SAFETY: the path is a C string, and the kernel writes at most the buffer's length.
    let length = unsafe { call(libc::SYS_readlinkat, arguments(given)) };
    let length = usize::try_from(length).ok().filter(|length| *length < buffer.len())?;
    buffer.get(..length)
}

/// Copies between files inside the kernel, as much as it likes to at once.
pub fn copy_range(from: c_int, from_offset: u64, to: c_int, to_offset: u64, length: u64) -> isize {
    let (mut from_offset, mut to_offset) = (from_offset as i64, to_offset as i64);
    let given =
        [int(from), &raw mut from_offset as usize, int(to), &raw mut to_offset as usize, length as usize, 0];
    // SAFETY: the offsets live until the call returns.
    unsafe { call(libc::SYS_copy_file_range, given) }
}

/// Reads into a buffer at an offset.
pub fn read_at(fd: c_int, buffer: &mut [u8], offset: u64) -> isize {
    let given = [int(fd), buffer.as_mut_ptr() as usize, buffer.len(), offset as usize];
    // SAFETY: the kernel writes at most the buffer's length.
    unsafe { call(libc::SYS_pread64, arguments(given)) }
}

/// Writes a buffer at an offset.
pub fn write_at(fd: c_int, buffer: &[u8], offset: u64) -> isize {
    let given = [int(fd), buffer.as_ptr() as usize, buffer.len(), offset as usize];
    // SAFETY: the kernel reads at most the buffer's length.
    unsafe { call(libc::SYS_pwrite64, arguments(given)) }
}
