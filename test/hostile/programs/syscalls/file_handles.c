// tries: open files of the host by handle, the way out of early containers
// outcome: succeeded
#include "hostile.h"
int main(void) {
	struct { struct file_handle h; unsigned char room[128]; } f = {.h = {.handle_bytes = 8, .handle_type = 1}};
	f.room[0] = 2;
	int root = open("/", O_RDONLY);
	REFUSED(open_by_handle_at(root, &f.h, O_RDONLY));
	root = open("/workspace", O_RDONLY);
	REFUSED(open_by_handle_at(root, &f.h, O_RDONLY));
	return contained();
}
