//! No body makes the gateway take many times its size. One test: counting is for one thread at a time.

use extender_guard::amplification::Shape;

#[test]
fn no_body_takes_many_times_its_size_in_memory() {
    let judge = |shape: &Shape| {
        let peak = shape.peak().unwrap();
        let (whole, tenth) = (peak.tenths() / 10, peak.tenths() % 10);
        println!("{}: {} bytes for a body of {}, {whole}.{tenth} times", shape.name, peak.most, peak.body);
        peak.judge(shape.name).err()
    };
    let complaints: Vec<String> = Shape::ALL.iter().filter_map(judge).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
