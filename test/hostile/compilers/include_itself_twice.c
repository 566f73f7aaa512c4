// tries: include itself in a tree of two to the power of 200
// outcome: failed|timed_out|out_of_memory|output_limit
#if __INCLUDE_LEVEL__ < 190
#include __FILE__
#include __FILE__
#endif
