//! The `plasma` binary; everything it does lives in `plasma-node`.

fn main() {
    println!("plasma");
}
