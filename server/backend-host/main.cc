/* The program: everything is in the library `libtritonserver.so` beside it, which backends are linked against. */
extern "C" int nereid_serve_backend();

int main() { return nereid_serve_backend(); }
