// Order delivers the events of many streams out of order and twice, kills workers meanwhile, and shows that every
// number is applied once, in order, and that nothing stays waiting. Further variants show that process clocks do not decide the
// order of receipt, that ordered effects keep their places in the queue, and that nothing stays ahead after the database's clock was.
//
// Run it with ./scripts/order, which describes the variants and the flags; -keys 100 -events 30 takes two minutes. It
// builds the real binary and starts a durable PostgreSQL.
//
// It prints a line for each variant, for example:
//
//	order plain: kept; 40 keys of 15 numbers in 658 deliveries, 5 workers killed; 600 applied in 603 attempts, 0 stuck, ..
//
// with the violations below it. It exits with 1 if a promise was broken, or if a variant with a planted defect was
// not noticed.
package main
