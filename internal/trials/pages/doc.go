// Package pages measures how fast lists answer when the tables are large.
//
// Run it with ./scripts/pages 10000000, which is the number of events. It fills a schema with that many events of 40
// sources, and an effect for each event that was admitted as ok. Three of the sources are quiet: one has a handful of
// events over the whole time, one has a thousand, and one was busy long ago. Then it reads every list with each of its filters, page after page for some pages, and prints the median
// and the 95th percentile of the time that a page took, how many rows it gave and how many pages the budget ended. A list
// whose 95th percentile is over the limit, and whose pages do not say how far they got, fails the test.
package pages
