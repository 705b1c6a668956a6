//! Has the role take loom's atomic.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(leasehold_loom)");
    println!("cargo::rustc-cfg=leasehold_loom");
}
