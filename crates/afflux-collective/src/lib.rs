//! Two-phase collective reads and writes of one shared file: carries the plans of `afflux-plan` out over a communicator
//! and a storage.
