//! The memory of a policy that answers one question and is thrown away: it only grows.
//!
//! Every text and list of a question is one allocation, and a list of 1,000 machines is about ten thousand of them. Here
//! each is an addition; a general allocator spends more time on them than the policy on its rule. What was allocated last
//! can grow in place and be given back; nothing else is given back, the host frees the whole memory after the answer.
//!
//! A policy takes it with `use arena as _;`.
#![no_std]

#[cfg(target_arch = "wasm32")]
mod wasm {
    use core::alloc::{GlobalAlloc, Layout};
    use core::arch::wasm32::{memory_grow, memory_size};
    use core::cell::Cell;
    use core::ptr::{copy_nonoverlapping, null_mut};

    /// A page of WebAssembly memory, bytes.
    const PAGE: usize = 1 << 16;
    /// Pages by which memory grows at least: growing is a call to the host's kernel.
    const STEP: usize = 16;

    struct Arena {
        /// Where the next allocation begins; 0 until the first.
        next: Cell<usize>,
        /// Where memory ends.
        end: Cell<usize>,
    }

    // There are no threads in a component.
    unsafe impl Sync for Arena {}

    #[global_allocator]
    static ARENA: Arena = Arena { next: Cell::new(0), end: Cell::new(0) };

    unsafe extern "C" {
        /// The linker's mark: static data and stack lie below.
        static __heap_base: u8;
    }

    impl Arena {
        /// Makes everything below `wanted` usable.
        fn reach(&self, wanted: usize) -> bool {
            if wanted <= self.end.get() {
                return true;
            }
            let missing = (wanted - self.end.get()).div_ceil(PAGE);
            // A memory with a maximum may have room for what is needed and not for more.
            let grown =
                [missing.max(STEP), missing].into_iter().any(|n| memory_grow::<0>(n) != usize::MAX);
            self.end.set(memory_size::<0>() * PAGE);
            grown
        }

        fn is_last(&self, at: *mut u8, size: usize) -> bool {
            at as usize + size == self.next.get()
        }
    }

    unsafe impl GlobalAlloc for Arena {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if self.next.get() == 0 {
                self.next.set(&raw const __heap_base as usize);
                self.end.set(memory_size::<0>() * PAGE);
            }
            let at = self.next.get().next_multiple_of(layout.align());
            let Some(end) = at.checked_add(layout.size()) else { return null_mut() };
            if !self.reach(end) {
                return null_mut();
            }
            self.next.set(end);
            at as *mut u8
        }

        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            if self.is_last(at, layout.size()) {
                self.next.set(at as usize);
            }
        }

        unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            if self.is_last(at, layout.size()) {
                let Some(end) = (at as usize).checked_add(size) else { return null_mut() };
                if !self.reach(end) {
                    return null_mut();
                }
                self.next.set(end);
                return at;
            }
            // SAFETY: the caller vouches for the layout, and the two places do not overlap.
            unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    copy_nonoverlapping(at, new, layout.size().min(size));
                }
                new
            }
        }
    }
}
