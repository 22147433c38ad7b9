--  An office with one clerk, a task that serves one after the other (rendezvous). Main asks it something
--  every 20 ms. When the file of the argument appears, the auditor has it check all books.

with Ada.Command_Line;
with Ada.Directories;
with Ada.Text_IO; use Ada.Text_IO;

procedure Office is
   Flag : constant String := Ada.Command_Line.Argument (1);

   type Timespec is record
      Seconds, Nanoseconds : Long_Integer;
   end record
   with Convention => C;

   function Thread_Id return Integer
   with Import, Convention => C, External_Name => "gettid";

   function Clock_Gettime (Clock : Integer; Time : access Timespec) return Integer
   with Import, Convention => C, External_Name => "clock_gettime";

   Sum : Integer := 7 with Volatile;

   function Now return Long_Integer is
      Time   : aliased Timespec := (0, 0);
      Failed : constant Integer := Clock_Gettime (1, Time'Access);
   begin
      pragma Assert (Failed = 0);
      return Time.Seconds * 1_000_000_000 + Time.Nanoseconds;
   end Now;

   procedure Check_Books with No_Inline;

   procedure Check_Books is
      Finish : constant Long_Integer := Now + 1_200_000_000;
   begin
      while Now < Finish loop
         for N in 1 .. 10_000 loop
            Sum := (Sum * 31 + N) mod 1_000_003;
         end loop;
      end loop;
   end Check_Books;

   task Clerk is
      entry Introduce (Id : out Integer);
      entry Ask (Answer : out Integer);
      entry Audit;
   end Clerk;

   task body Clerk is
   begin
      accept Introduce (Id : out Integer) do
         Id := Thread_Id;
      end Introduce;
      loop
         select
            accept Ask (Answer : out Integer) do
               Answer := Sum;
            end Ask;
         or
            accept Audit do
               Check_Books;
            end Audit;
         end select;
      end loop;
   end Clerk;

   task Auditor;

   task body Auditor is
   begin
      loop
         if Ada.Directories.Exists (Flag) then
            Ada.Directories.Delete_File (Flag);
            Clerk.Audit;
         end if;
         delay 0.01;
      end loop;
   end Auditor;

   Id, Answer : Integer;
   From, To   : Long_Integer;
begin
   Clerk.Introduce (Id);
   Put_Line ("{""victim"":" & Integer'Image (Thread_Id) & ", ""clerk"":" & Integer'Image (Id) & "}");
   Flush;
   loop
      From := Now;
      Clerk.Ask (Answer);
      To := Now;
      if To - From >= 100_000_000 then
         Put_Line ("{""from"":" & Long_Integer'Image (From) & ", ""to"":" & Long_Integer'Image (To) & "}");
         Flush;
      end if;
      delay 0.02;
   end loop;
end Office;
