//! The reader on files made by HDF5 alone: what it shows, what it refuses, what it finds, and how it reads.

mod calls;
mod damage;
mod make;
mod reads;
