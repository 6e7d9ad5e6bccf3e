/* The program: everything is in the library `libtritonserver.so` beside it, which backends and agents are linked against. */
#include <cstring>

extern "C" int nereid_serve_backend();
extern "C" int nereid_serve_agent();

int main(int count, char** words) {
  return count > 1 && std::strcmp(words[1], "agent") == 0 ? nereid_serve_agent() : nereid_serve_backend();
}
