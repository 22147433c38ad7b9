// A camera that hands on a frame every 20 ms through ZeroMQ to a thread that looks for faces in it.
// When the file of the first argument appears, a frame has many faces, and the queue fills.
#include "beat.h"
#include <zmq.h>

static const char *flag;
static void *camera, *detector;

__attribute__((noinline)) static void send_frame(void)
{
	zmq_send(camera, "frame", 5, 0);
}

__attribute__((noinline)) static void find_faces(void)
{
	compute(1.1);
}

static void detect_faces(void)
{
	char frame[8];

	while (zmq_recv(detector, frame, sizeof frame, 0) >= 0)
		if (told(flag))
			find_faces();
}

int main(int argc, char **argv)
{
	void *context = zmq_ctx_new();
	int one = 1, thread;

	flag = argv[argc - 1];
	camera = zmq_socket(context, ZMQ_PUSH);
	detector = zmq_socket(context, ZMQ_PULL);
	zmq_setsockopt(camera, ZMQ_SNDHWM, &one, sizeof one);
	zmq_setsockopt(detector, ZMQ_RCVHWM, &one, sizeof one);
	if (zmq_bind(camera, "inproc://frames") || zmq_connect(detector, "inproc://frames"))
		exit(1);
	thread = start_thread("detector", detect_faces);
	printf("{\"victim\": %d, \"detector\": %d}\n", gettid(), thread);
	fflush(stdout);
	rhythm(send_frame);
}
