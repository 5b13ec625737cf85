//! The layer itself: SQLite's own file layer, with a note taken of each write, truncation and sync.
//!
//! Each open file is one block of memory that SQLite allocates: a [`LayerFile`], and behind it the file of the layer
//! below. Every method finds the lower file there and hands the call on.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Once;

use rusqlite::ffi;

use crate::unsynced;

/// A file of this layer; the file of the layer below follows in the same block.
#[repr(C)]
struct LayerFile {
    base: ffi::sqlite3_file,
    /// Owned; null for files without a name.
    path: *mut PathBuf,
}

const LOWER_OFFSET: usize = size_of::<LayerFile>().next_multiple_of(16);

pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: SQLite gives its default layer, which lives as long as the process.
        let lower = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
        assert!(!lower.is_null(), "SQLite has a default layer");
        // SAFETY: the default layer is a valid structure that nobody changes.
        let mut layer = unsafe { *lower };
        layer.szOsFile += c_int::try_from(LOWER_OFFSET).expect("a small number");
        layer.zName = c"power".as_ptr();
        layer.pNext = std::ptr::null_mut();
        layer.pAppData = lower.cast();
        layer.xOpen = Some(open);
        layer.xDelete = Some(delete);
        // The other methods are given this layer instead of theirs; the ones below look at nothing in it but the
        // length of a path, which is the same. So they are taken over as they are.
        let layer = Box::leak(Box::new(layer));
        // SAFETY: the layer is complete and lives as long as the process.
        let code = unsafe { ffi::sqlite3_vfs_register(layer, 1) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes the layer");
    });
}

/// The layer below.
///
/// # Safety
/// `layer` is the layer that [`install`] registered.
unsafe fn lower_layer(layer: *mut ffi::sqlite3_vfs) -> *mut ffi::sqlite3_vfs {
    // SAFETY: by the caller's promise.
    unsafe { (*layer).pAppData.cast() }
}

/// The file of the layer below.
///
/// # Safety
/// `file` was opened by [`open`].
unsafe fn lower_file(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: SQLite allocated `szOsFile` bytes, which is this offset and the lower file.
    unsafe { file.cast::<u8>().add(LOWER_OFFSET).cast() }
}

/// The methods of the file below.
///
/// # Safety
/// `file` was opened by [`open`].
unsafe fn lower_methods<'a>(file: *mut ffi::sqlite3_file) -> &'a ffi::sqlite3_io_methods {
    // SAFETY: a file that was opened has methods, which live as long as the process.
    unsafe { &*(*lower_file(file)).pMethods }
}

/// The file's path.
///
/// # Safety
/// `file` was opened by [`open`] and is not closed while the path is used.
unsafe fn path_of<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a Path> {
    // SAFETY: by the caller's promise the pointer is null or owned by the file.
    unsafe { (*file.cast::<LayerFile>()).path.as_ref() }.map(PathBuf::as_path)
}

unsafe extern "C" fn open(
    layer: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a block of `szOsFile` bytes and valid pointers; the layer below gets its part of it.
    unsafe {
        let ours = file.cast::<LayerFile>();
        (*ours).base.pMethods = std::ptr::null();
        (*ours).path = std::ptr::null_mut();
        let lower = lower_layer(layer);
        let Some(open) = (*lower).xOpen else { return ffi::SQLITE_CANTOPEN };
        let code = open(lower, name, lower_file(file), flags, out_flags);
        if (*lower_file(file)).pMethods.is_null() {
            return code;
        }
        if !name.is_null() {
            (*ours).path = Box::into_raw(Box::new(path(name)));
        }
        (*ours).base.pMethods = &METHODS;
        code
    }
}

unsafe extern "C" fn delete(layer: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite gives the layer that was registered and a path that ends with a zero.
    unsafe {
        unsynced::delete(&path(name));
        let lower = lower_layer(layer);
        (*lower).xDelete.map_or(ffi::SQLITE_IOERR_DELETE, |delete| delete(lower, name, sync))
    }
}

/// # Safety
/// `name` is a text that ends with a zero.
unsafe fn path(name: *const c_char) -> PathBuf {
    // SAFETY: by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    PathBuf::from(name.to_string_lossy().into_owned())
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the file was opened by this layer; it is not used again.
    unsafe {
        let code = lower_methods(file).xClose.map_or(ffi::SQLITE_OK, |close| close(lower_file(file)));
        let path = (*file.cast::<LayerFile>()).path;
        if !path.is_null() {
            drop(Box::from_raw(path));
        }
        code
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite gives `amount` bytes and a file of this layer.
    unsafe {
        if let (Some(path), Ok(length), Ok(at)) =
            (path_of(file), usize::try_from(amount), usize::try_from(offset))
        {
            unsynced::write(path, at, std::slice::from_raw_parts(data.cast(), length));
        }
        let write = lower_methods(file).xWrite;
        write.map_or(ffi::SQLITE_IOERR_WRITE, |write| write(lower_file(file), data, amount, offset))
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite gives a file of this layer.
    unsafe {
        if let (Some(path), Ok(size)) = (path_of(file), usize::try_from(size)) {
            unsynced::truncate(path, size);
        }
        let truncate = lower_methods(file).xTruncate;
        truncate.map_or(ffi::SQLITE_IOERR_TRUNCATE, |truncate| truncate(lower_file(file), size))
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite gives a file of this layer.
    unsafe {
        let sync = lower_methods(file).xSync;
        let code = sync.map_or(ffi::SQLITE_IOERR_FSYNC, |sync| sync(lower_file(file), flags));
        if let (ffi::SQLITE_OK, Some(path)) = (code, path_of(file)) {
            unsynced::sync(path);
        }
        code
    }
}

/// Methods that are handed on as they are.
macro_rules! handed_on {
    ($($name:ident => $method:ident($($argument:ident: $kind:ty),*) else $missing:expr;)*) => {
        $(unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $kind)*) -> c_int {
            // SAFETY: SQLite gives a file of this layer, and arguments for the layer below.
            unsafe {
                let method = lower_methods(file).$method;
                method.map_or($missing, |method| method(lower_file(file) $(, $argument)*))
            }
        })*
    };
}

handed_on! {
    read => xRead(data: *mut c_void, amount: c_int, offset: ffi::sqlite3_int64) else ffi::SQLITE_IOERR_READ;
    file_size => xFileSize(size: *mut ffi::sqlite3_int64) else ffi::SQLITE_IOERR_FSTAT;
    lock => xLock(level: c_int) else ffi::SQLITE_IOERR_LOCK;
    unlock => xUnlock(level: c_int) else ffi::SQLITE_IOERR_UNLOCK;
    check_reserved => xCheckReservedLock(held: *mut c_int) else ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    control => xFileControl(operation: c_int, argument: *mut c_void) else ffi::SQLITE_NOTFOUND;
    sector_size => xSectorSize() else 4096;
    shm_map => xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) else ffi::SQLITE_IOERR_SHMMAP;
    shm_lock => xShmLock(offset: c_int, count: c_int, flags: c_int) else ffi::SQLITE_IOERR_SHMLOCK;
    shm_unmap => xShmUnmap(delete: c_int) else ffi::SQLITE_OK;
}

/// No promises about what survives a power cut: SQLite must sync.
unsafe extern "C" fn characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    0
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: SQLite gives a file of this layer.
    unsafe {
        if let Some(barrier) = lower_methods(file).xShmBarrier {
            barrier(lower_file(file));
        }
    }
}

/// Version 2: with shared memory, which the log needs, and without memory maps, which would go around `write`.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
